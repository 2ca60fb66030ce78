package attack

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSweepTakesWhatTheDeadLeft makes canaries as a killed process leaves them, beside a living one's.
func TestSweepTakesWhatTheDeadLeft(t *testing.T) {
	top := t.TempDir()
	living := filepath.Join(top, canaryPrefix+"living")
	if err := os.Mkdir(living, 0o755); err != nil {
		t.Fatal(err)
	}
	remove, err := own(living)
	if err != nil {
		t.Fatal(err)
	}
	dead := &Canaries{marker: canaryPrefix + rand.Text(), Secret: "canary of the dead"}
	folder := filepath.Join(top, dead.marker)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, dead.marker+".txt"), []byte(dead.Secret+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dead.shareSegment(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(top, "fumehood-other")
	if err := os.Symlink(top, filepath.Join(top, canaryPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	sweepCanaries([]string{top})
	if _, err := os.Lstat(folder); !os.IsNotExist(err) {
		t.Errorf("what the dead one left is there: %v", err)
	}
	if id, err := unix.SysvShmGet(int(segmentKey(dead.marker)), 0, 0); err == nil {
		t.Errorf("its segment %d is there", id)
	}
	for _, kept := range []string{living, other} {
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(living); !os.IsNotExist(err) {
		t.Errorf("it was not removed: %v", err)
	}
}

// TestSegmentOfAnother: another program's segment with the same key is left alone.
func TestSegmentOfAnother(t *testing.T) {
	key := segmentKey(t.TempDir())
	id, err := unix.SysvShmGet(int(key), segmentSize, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
	if err != nil {
		t.Fatal(err)
	}
	removeSegment(key, []byte("canary"))
	if _, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

// TestPlantAndClose leaves nothing behind.
func TestPlantAndClose(t *testing.T) {
	t.Setenv(envSecret, "before")
	c, err := Plant()
	if err != nil {
		t.Fatal(err)
	}
	places := c.places
	if what := c.intact(); what != "" || len(places) == 0 || c.Found([]byte("x"+os.Getenv(envSecret))) == "" {
		t.Errorf("%v: %s", places, what)
	}
	if err := os.WriteFile(filepath.Join(places[0], "evil"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.intact() == "" {
		t.Error("a file beside a canary is not seen")
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range places {
		if _, err := os.Stat(place); !os.IsNotExist(err) {
			t.Errorf("%s: %v", place, err)
		}
	}
	if got := os.Getenv(envSecret); got != "before" {
		t.Errorf("the variable is %q", got)
	}
}
