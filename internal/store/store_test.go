package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
		if _, err = s.Save(r); err == nil {
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
		if bytes, err := s.Save(r); err != nil || bytes < len(r.Owner) {
			t.Fatal(bytes, err)
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
	if _, err := s.Save(bytes); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("a text that is not UTF-8: %v", err)
	}
	_, err := s.Save(sandbox.Record{ID: sandbox.NewID(), Name: strings.Repeat("x", MaxRecord)})
	if sandbox.KindOf(err) != sandbox.TooLarge {
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
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Error(info, err)
	}
}

// TestEndedMost: of the ended, the newest are kept, and those of an owner with few.
func TestEndedMost(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	s := open(t, path)
	start := time.Now().Add(-time.Hour).Round(0).UTC()
	living, last := sandbox.Record{ID: sandbox.NewID()},
		sandbox.Record{ID: sandbox.NewID(), Owner: "many", Created: start, Ended: start.Add(EndedMost + 1)}
	save(t, s, living)
	for i := 0; i <= EndedMost; i++ { // not by Save, since a thousand syncs take too long
		r := sandbox.Record{ID: sandbox.NewID(), Owner: "many", Created: start, Ended: start.Add(time.Duration(i))}
		if i == 0 {
			r.Owner = "few"
		}
		b, err := encode(r, func(int) func() { return func() {} })
		if err == nil {
			err = os.WriteFile(filepath.Join(path, string(r.ID)+suffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, path)
	if n := len(load(t, s)); n != EndedMost+1 {
		t.Errorf("%d are kept by the next server", n)
	}
	save(t, s, last)
	got := load(t, s)
	byEnd := slices.SortedFunc(slices.Values(got[1:]),
		func(a, b sandbox.Record) int { return a.Ended.Compare(b.Ended) })
	if len(got) != EndedMost+1 || got[0].ID != living.ID || byEnd[0].Owner != "few" ||
		!byEnd[1].Ended.Equal(start.Add(3)) {
		t.Errorf("%d are kept, the oldest %v and %v after the start", len(got), byEnd[0].Ended.Sub(start),
			byEnd[1].Ended.Sub(start))
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

// refused asserts that a path is refused with a way out, and that the way out works.
func refused(t *testing.T, path string) {
	t.Helper()
	s, err := Open(path)
	if err == nil {
		s.Close()
		t.Fatal("opened")
	}
	if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "mv ") {
		t.Error(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	open(t, path)
}

// TestDamaged: a record with a byte changed, or only its first bytes, is reported as damaged and costs only itself.
// The file of a save that was cut off is removed.
func TestDamaged(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	s := open(t, path)
	sound, victim := full(t), sandbox.Record{ID: sandbox.NewID(), Name: "work", Created: time.Unix(9, 0).UTC()}
	save(t, s, sound, victim)
	s.Close()
	at := filepath.Join(path, string(victim.ID)+suffix)
	content, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	check := func(why string, content []byte) {
		t.Helper()
		for name, content := range map[string][]byte{at: content, at + newSuffix: content[:len(content)/2]} {
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, path)
		defer s.Close()
		got, damaged, err := s.Load()
		if err != nil || !slices.ContainsFunc(got, func(r sandbox.Record) bool { return reflect.DeepEqual(r, sound) }) {
			t.Fatalf("%s: %v, %v", why, got, err)
		}
		if len(got) == 2 && !reflect.DeepEqual(got[0], victim) && !reflect.DeepEqual(got[1], victim) {
			t.Errorf("%s: read as %v", why, got)
		}
		if len(got) == 1 && (len(damaged) != 1 || damaged[0].ID != victim.ID || damaged[0].Err == nil) {
			t.Errorf("%s: damaged are %v", why, damaged)
		}
		if _, err := os.Stat(at + newSuffix); err == nil {
			t.Errorf("%s: a file of a save that was cut off is left", why)
		}
	}
	for i := 0; i < len(content); i += 3 {
		changed := bytes.Clone(content)
		changed[i] ^= 1 << (i % 8)
		check(fmt.Sprint("byte ", i), changed)
		if i%9 == 0 {
			check(fmt.Sprint("length ", i), content[:i])
		}
	}
	s = open(t, path)
	save(t, s, victim)
	if len(load(t, s)) != 2 {
		t.Error("a damaged record cannot be replaced")
	}
}

// TestForeign: a file, a link, and a record of a newer version are refused. Other files in the folder are ignored.
func TestForeign(t *testing.T) {
	path := filepath.Join(folder(t), "store")
	if err := os.WriteFile(path, []byte("SQLite format 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path)
	s := open(t, path+"2")
	r := full(t)
	save(t, s, r)
	s.Close()
	newer := file{Version: version + 1, Record: json.RawMessage("{}")}
	newer.Sum = newer.sum()
	b, err := json.Marshal(newer)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(path+"2", "notes.json"), b, 0o600),
			os.Symlink(path+"2", path+"3"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path + "3"); err == nil {
		s.Close()
		t.Error("opened through a link")
	}
	s = open(t, path+"2")
	if got := load(t, s); !reflect.DeepEqual(got, []sandbox.Record{r}) {
		t.Error(got)
	}
	s.Close()
	if err := os.WriteFile(filepath.Join(path+"2", string(sandbox.NewID())+suffix), b, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path+"2")
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

// TestTurns: large records of an owner are encoded one after another. Small ones, and those of others, do not wait.
func TestTurns(t *testing.T) {
	s := open(t, filepath.Join(folder(t), "store"))
	large := func(owner string) sandbox.Record {
		return sandbox.Record{ID: sandbox.NewID(), Owner: owner, Name: strings.Repeat("x", largeRecord)}
	}
	if !s.encoding.Take("a", 1) {
		t.Fatal("no turn is free")
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Save(large("a"))
		waiting <- err
	}()
	save(t, s, sandbox.Record{ID: sandbox.NewID(), Owner: "a"})
	save(t, s, large("b"))
	if n := len(load(t, s)); n != 2 {
		t.Errorf("%d records were saved during the turn of another of their owner", n-1)
	}
	s.encoding.Give("a", 1)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
