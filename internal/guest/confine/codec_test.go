package confine

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPlan: a plan is read as written, and always gives the same bytes, by which the host compares plans.
func TestPlan(t *testing.T) {
	p := &Plan{
		ID: "id", Key: []byte{1}, Hostname: "name", Guest: sandbox.User{UID: 1, GID: 2},
		Code: sandbox.User{UID: 3, GID: 4},
		Root: []Step{{Do: Dir, Target: "a", Mode: 0o755}, {Do: Bind, Target: "b", Source: "/b"}}, Template: 1 << 40,
		Loopback: true,
		Limits:   []Rlimit{{1, 2, 3}, {4, 5, 6}}, Payload: []Rlimit{{7, 8, 9}},
		Landlock: Ruleset{Handled: 10, Scoped: 11, Flags: 16, Grants: []Access{{Path: "/a", Rights: 12}}},
		Seccomp:  []byte{13}, OneShot: true, Lease: 14,
		Execute:      Program{Paths: []string{"/a", "/b"}, Argv: []string{"a", ""}, Env: []string{"A=", "B=b"}},
		MakeTemplate: true, Builder: true, FailAt: "step",
		Container: Container{Listen: "/s", Filter: FilterPlain | FilterHostWritable | FilterNested, Threads: 15,
			Visited: true},
	}
	written := p.Append(nil)
	read := &Plan{}
	if err := read.Parse(written); err != nil || !reflect.DeepEqual(read, p) {
		t.Errorf("%v: wrote\n%+v\nread\n%+v", err, p, read)
	}
	for range 100 {
		if again := p.Append(nil); !bytes.Equal(again, written) {
			t.Fatalf("written as\n%x\nand as\n%x", written, again)
		}
	}
	for n, fields := 0, reflect.ValueOf(*p); n < fields.NumField(); n++ {
		if fields.Field(n).IsZero() {
			t.Errorf("nothing is tried of %s", fields.Type().Field(n).Name)
		}
	}
}
