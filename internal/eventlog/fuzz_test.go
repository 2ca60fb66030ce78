package eventlog

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// FuzzOpen: any file opens with events in order, which a second opening finds again, or is refused.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(folder(f), "a")
	l := create(f, path, `{"code":""}`, Bounds{})
	l.Append(Stdout, 10, []byte("abc"))
	l.Append(Result, 0, []byte("value"))
	if err := l.Sync(); err != nil {
		f.Fatal(err)
	}
	open, _ := os.ReadFile(path)
	if err := l.Finish([]byte("0")); err != nil {
		f.Fatal(err)
	}
	finished, _ := os.ReadFile(path)
	for _, seed := range [][]byte{nil, open, finished, open[:len(open)-1], append(finished, open[headerHead:]...)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(folder(t), "a")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, _, err := Open(path)
		if err != nil {
			if sandbox.KindOf(err) != sandbox.Unavailable {
				t.Fatal(err)
			}
			return
		}
		defer l.Close()
		for i, e := range collect(t, l, 0) {
			if e.ID != uint64(i+1) || !e.Kind.known() {
				t.Errorf("event %d: %+v", i, e)
			}
		}
		again, _, err := Open(path)
		if err != nil || again.Last() != l.Last() {
			t.Fatal(again, err)
		}
		again.Close()
	})
}
