package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const childEnv = "STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		saveForever(path)
		return
	}
	os.Exit(m.Run())
}

// saveForever says each id once its record is saved.
func saveForever(path string) {
	s, err := Open(path)
	for err == nil {
		r := sandbox.Record{ID: sandbox.NewID(), Owner: strings.Repeat("x", 3000)}
		if err = s.Save(r); err == nil {
			fmt.Println(r.ID)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func save(t *testing.T, s *Store, records ...sandbox.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Save(r); err != nil {
			t.Fatal(err)
		}
	}
}

func load(t *testing.T, s *Store) []sandbox.Record {
	t.Helper()
	records, damaged, err := s.Load()
	if err != nil || len(damaged) > 0 {
		t.Fatal(damaged, err)
	}
	return records
}

// full is a record with a value in every field of every struct, slices and maps, but for what is not kept, such as
// values of secrets.
func full(t *testing.T) sandbox.Record {
	r := sandbox.Record{}
	fill(t, reflect.ValueOf(&r).Elem(), 1)
	r.ID, r.Ended = sandbox.NewID(), time.Now().Round(0).UTC()
	for i := range r.Spec.Network.Secrets {
		r.Spec.Network.Secrets[i].Value = ""
	}
	return r
}

func fill(t *testing.T, v reflect.Value, n int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(int64(n), 5).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i), n+i)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n+1)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(t, value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("b\x00<é>"), value)
	case reflect.String:
		v.SetString(fmt.Sprint("text \" ", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n) << 40)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n & 0x7f))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	default:
		t.Fatalf("a record has a %v", v.Type())
	}
}

// TestRoundTrip: what was saved comes back exactly, whatever the file is called. What could not come back is refused,
// and ended sandboxes are forgotten in time.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(folder(t), "a b?c#d%25'e")
	s := open(t, path)
	first, second := full(t), sandbox.Record{
		ID: sandbox.NewID(), Created: time.Unix(9, 0).UTC(), Spec: sandbox.Spec{Commands: []string{}}}
	old := sandbox.Record{ID: sandbox.NewID(), Ended: time.Now().Add(-EndedFor - time.Minute)}
	withValues := first
	withValues.Spec.Network.Former = []sandbox.Secret{{Name: "A", Value: "a former value"}} // only in memory
	save(t, s, second, withValues, old)
	second.Name = "changed"
	save(t, s, second)
	bytes := sandbox.Record{ID: sandbox.NewID(), Spec: sandbox.Spec{Env: []string{"A=\xff"}}}
	if err := s.Save(bytes); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("a text that is not UTF-8: %v", err)
	}
	if err := s.Save(sandbox.Record{ID: sandbox.NewID(), Name: strings.Repeat("x", MaxRecord)}); sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("a large record: %v", err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if got := load(t, s); !reflect.DeepEqual(got, []sandbox.Record{first, second}) {
		t.Errorf("saved\n%+v\n%+v\ngot\n%+v", first, second, got)
	}
	if err := errors.Join(s.Remove(first.ID), s.Remove(first.ID)); err != nil || len(load(t, s)) != 1 {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info, err)
	}
	s.Close()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("beside the store: %v, %v", files, err)
	}
}

// TestEndedMost: of the ended, the newest are kept.
func TestEndedMost(t *testing.T) {
	s := open(t, filepath.Join(folder(t), "store"))
	start := time.Now().Add(-time.Hour).Round(0).UTC()
	living, last := sandbox.Record{ID: sandbox.NewID()},
		sandbox.Record{ID: sandbox.NewID(), Created: start, Ended: start.Add(EndedMost + 1)}
	save(t, s, living)
	err := s.write("fill", func() (err error) { // in one transaction: a thousand syncs take too long
		for i := 0; i <= EndedMost && err == nil; i++ {
			r := sandbox.Record{ID: sandbox.NewID(), Created: start, Ended: start.Add(time.Duration(i))}
			var b []byte
			if b, err = encode(r); err == nil {
				err = s.exec("INSERT INTO sandboxes VALUES (?, ?, ?, ?)", string(r.ID), r.Ended.UnixNano(), sum(b), b)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	save(t, s, last)
	got := load(t, s)
	oldest := slices.MinFunc(got[1:], func(a, b sandbox.Record) int { return a.Ended.Compare(b.Ended) })
	if len(got) != EndedMost+1 || got[0].ID != living.ID || !oldest.Ended.Equal(start.Add(2)) {
		t.Errorf("%d are kept, the oldest %v after the start", len(got), oldest.Ended.Sub(start))
	}
}

// TestKill: after a kill at any instant all that was said to be saved is there, and at most one record more.
func TestKill(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	saved := map[sandbox.ID]bool{}
	for round := range 5 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			saved[sandbox.ID(lines.Text())] = true
			if n == 2+round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		child.Wait()
		s := open(t, path)
		extra := 0
		for _, r := range load(t, s) {
			if !saved[r.ID] {
				extra++
			}
			delete(saved, r.ID)
		}
		if len(saved) > 0 || extra > 1 {
			t.Errorf("round %d: lost %v, %d more than was said", round, saved, extra)
		}
		for _, r := range load(t, s) {
			saved[r.ID] = true
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// refused asserts that a file is refused with a way out and stays as it is, and that the way out works.
func refused(t *testing.T, path, why string) {
	t.Helper()
	before, _ := os.ReadFile(path)
	s, err := Open(path)
	if err == nil {
		s.Close()
		t.Errorf("%s: opened", why)
		return
	}
	after, _ := os.ReadFile(path)
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "mv ") ||
		!bytes.Equal(before, after) {
		t.Errorf("%s: %v; the file is unchanged: %v", why, err, bytes.Equal(before, after))
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Errorf("%s, moved away: %v", why, err)
		return
	}
	s.Close()
}

// TestDamaged: a store with any byte of its header changed opens with what it had, or is refused; so is what never was
// a store.
func TestDamaged(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "store")
	s := open(t, path)
	want := full(t)
	save(t, s, want)
	s.Close()
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const header = 100 // https://www.sqlite.org/fileformat.html
	opened := 0
	for i := range header {
		for _, flip := range []byte{0x01, 0xff} {
			damaged := bytes.Clone(sound)
			damaged[i] ^= flip
			at := filepath.Join(dir, fmt.Sprintf("damaged%d-%d", i, flip))
			if err := os.WriteFile(at, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(at)
			if err != nil {
				refused(t, at, fmt.Sprint("header byte ", i))
				continue
			}
			opened++
			if got := load(t, s); !reflect.DeepEqual(got, []sandbox.Record{want}) {
				t.Errorf("with header byte %d changed: %+v", i, got)
			}
			s.Close()
		}
	}
	if opened == 0 || opened > header {
		t.Errorf("%d of %d damaged headers are accepted", opened, 2*header)
	}
	headless := append(make([]byte, 4096), sound[4096:]...)
	for why, content := range map[string][]byte{
		"text": []byte("no database"), "half": sound[:len(sound)/2], "headless": headless} {
		at := filepath.Join(dir, why)
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, at, why)
	}
	if at := filepath.Join(dir, "link"); os.Symlink(path, at) != nil {
		t.Error("no link could be made")
	} else if _, err := Open(at); err == nil {
		t.Error("opened through a link")
	}
}

// TestForeign: a newer store and another program's file are refused; a damaged record costs only itself.
func TestForeign(t *testing.T) {
	dir := folder(t)
	for why, statement := range map[string]string{
		"newer": "PRAGMA user_version = 2", "foreign": "PRAGMA application_id = 7",
		"other schema": "DROP TABLE sandboxes",
		"":             "UPDATE sandboxes SET record = CAST(replace(record, 'text', 'tent') AS BLOB)"} {
		path := filepath.Join(dir, "store "+why)
		s := open(t, path)
		r := full(t)
		save(t, s, r)
		s.Close()
		db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
		db.Close()
		if why != "" {
			refused(t, path, why)
			continue
		}
		s = open(t, path)
		save(t, s, sandbox.Record{ID: sandbox.NewID()})
		if got, damaged, err := s.Load(); len(got) != 1 || len(damaged) != 1 || damaged[0].ID != r.ID ||
			damaged[0].Err == nil || err != nil {
			t.Errorf("%v, %v, %v", got, damaged, err)
		}
	}
}

// TestSecondOpener: a store has one opener, who is not disturbed by a second.
func TestSecondOpener(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	s := open(t, path)
	opener := func() *exec.Cmd {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+path)
		return child
	}
	out, err := opener().CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("another process has it open")) {
		t.Errorf("another process: %v: %s", err, out)
	}
	_, err = Open(path)
	if sandbox.KindOf(err) != sandbox.Busy || sandbox.FixOf(err) == "" {
		t.Errorf("the same process: %v", err)
	}
	if err := opener().Run(); err == nil {
		t.Error("the failed opening has given up the lock")
	}
	save(t, s, sandbox.Record{ID: sandbox.NewID()})
}
