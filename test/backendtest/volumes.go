package backendtest

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/volume"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// volumeCases need a host that can bound a volume, and a backend that mounts host directories.
var volumeCases = []testCase{
	{"volume", "a volume keeps the code's files, and nothing else comes out of it", testVolume},
	{"full volume", "a volume has a bound of bytes, and of files", testFullVolume},
	{"volume in memory", "a volume in memory is writable, bounded and empty", testMemoryVolume},
}

// withVolume returns an engine with a volume named data. It skips the test where the host cannot bound one.
func withVolume(t *testing.T, s *suite) *engine.Engine {
	t.Helper()
	store := volume.New(volume.Options{Dir: t.TempDir(), Lives: func(string, sandbox.ID) (bool, error) {
		return false, nil // each run ends before the next
	}})
	t.Cleanup(func() { store.Close() })
	_, err := store.Create(t.Context(), sandbox.VolumeRequest{Name: "data", Bytes: volume.LeastBytes, Inodes: 64})
	if len(sandbox.UnenforcedOf(err)) > 0 {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.newEngine(t, engine.Config{Volumes: engine.VolumeConfig{Store: store}})
}

// onVolume runs a script with the volume at /data.
func onVolume(t *testing.T, e *engine.Engine, readOnly bool, script string) *sandbox.Result {
	t.Helper()
	r := sh(script)
	r.Spec.Volumes = []sandbox.Volume{{Name: "data", Path: "/data", ReadOnly: readOnly}}
	r.Spec.Limits.DiskBytes = 8 << 20 // a named limit: the volume has its own
	result, err := e.Run(within(t), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func testVolume(t *testing.T, s *suite) {
	e := withVolume(t, s)
	wantOutput(t, onVolume(t, e, false, `ls -A /data; umask 077; echo kept > /data/x; mkdir /data/d
ln -s /etc/shadow /data/link; ln -s ../../../.. /data/up
mknod /data/null c 1 3 2>/dev/null && echo made a device
chmod u+s /data/x 2>/dev/null && echo set an id
cp /bin/true /data/d/true; chmod 755 /data/d/true; /data/d/true && echo runs`), "runs\n")
	for range 2 {
		wantOutput(t, onVolume(t, e, true, `cat /data/x; cat /data/link 2>/dev/null; ls /data
echo y > /data/x || echo refused; rm -f /data/x || echo refused; chmod 644 /data/x || echo refused`),
			"kept\nd\nlink\nup\nx\nrefused\nrefused\nrefused\n")
	}
	wantOutput(t, onVolume(t, e, false, "cat /data/x; stat -c %u /data /data/x"), "kept\n1000\n1000\n")
}

func testFullVolume(t *testing.T, s *suite) {
	e := withVolume(t, s)
	result := onVolume(t, e, false, `head -c 32M /dev/zero > /data/big || rm /data/big
i=0; while ln -s x /data/$i 2>/dev/null; do i=$((i+1)); test $i -lt 100 || break; done
test $i -lt 100 && echo bounded; rm /data/0; echo goes on > /data/file; cat /data/file`)
	if !strings.Contains(string(result.Stderr.Head), "No space left") {
		t.Errorf("32 MiB fit into 16: %s", result.Stderr.Head)
	}
	wantOutput(t, result, "bounded\ngoes on\n")
}

func testMemoryVolume(t *testing.T, s *suite) {
	r := sh(`ls -A /scratch; head -c 8M /dev/zero > /scratch/big && echo fits; wc -c < /scratch/big`)
	r.Spec.Volumes = []sandbox.Volume{{Bytes: 4 << 20, Path: "/scratch"}}
	wantOutput(t, s.run(t, r), "4194304\n")
}
