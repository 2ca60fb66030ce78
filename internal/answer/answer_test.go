package answer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func marshal(v any) []byte {
	var out bytes.Buffer
	largejson.Encode(&out, v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// succeeded is the result of print(6*7) where all that was asked is enforced.
func succeeded() *sandbox.Result {
	r := &sandbox.Result{ID: sandbox.NewID(), Status: sandbox.StatusSucceeded,
		Stdout: sandbox.Captured{Head: []byte("42\n")},
		Usage: sandbox.Usage{Wall: 12345678 * time.Nanosecond, CPU: 11345678 * time.Nanosecond,
			MemoryPeak: 12_345_678},
		Timings: sandbox.Timings{Queue: 12 * time.Microsecond, Create: 12345678, Upload: 345678, Run: 12345678}}
	r.Requested = sandbox.Spec{Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}
	r.Effective = sandbox.Policy{Backend: "native", Limits: r.Requested.Limits, User: r.Requested.User,
		Network: r.Requested.Network}
	for range 25 {
		r.Effective.Walls = append(r.Effective.Walls, sandbox.Wall{Name: string(sandbox.NewID()),
			State: sandbox.WallEnforced})
	}
	return r
}

func TestSections(t *testing.T) {
	marshalled := func(r *sandbox.Result, include ...api.Section) (string, map[string]json.RawMessage) {
		text := marshal(New(wording.HTTP, r, include...))
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		return string(text), fields
	}
	text, fields := marshalled(succeeded())
	if len(text) >= 400 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	always := strings.Fields("id status exit_code signal stdout stderr results exception files hint usage timings text")
	for _, name := range always {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if len(fields) != len(always) || string(fields["hint"]) != "null" || string(fields["files"]) != "[]" {
		t.Error(text)
	}
	for _, section := range api.Sections {
		name := string(section)
		r := succeeded()
		if name == "compile" { // of a language that has one
			r.Compiled = &sandbox.Compiled{}
		}
		if _, fields := marshalled(r,
			section); fields[name] == nil || string(fields[name]) == "null" || len(fields) != len(always)+1 {
			t.Errorf("included: %s: %s", name, fields[name])
		}
	}
	for name, change := range map[string]func(*sandbox.Result){
		"skipped_files": func(r *sandbox.Result) { r.Skipped = []sandbox.Skipped{{Path: "a"}} },
		"policy":        func(r *sandbox.Result) { r.Effective.Limits.Pids = sandbox.Unlimited },
		"output":        func(r *sandbox.Result) { r.Stderr.Dropped = 1 },
		"policy beyond the configuration": func(r *sandbox.Result) {
			r.Effective.Limits.Pids = sandbox.Unlimited
			r.Requested.StandingWaivers = []string{"memory"}
		},
		"compile": func(r *sandbox.Result) {
			r.Compiled = &sandbox.Compiled{Stderr: sandbox.Captured{Head: []byte("a warning")}}
		},
	} {
		r := succeeded()
		change(r)
		name, _, _ = strings.Cut(name, " ")
		if _, fields := marshalled(r); fields[name] == nil || len(fields) != len(always)+1 {
			t.Errorf("%s is not there: %v", name, fields)
		}
	}
	waived := succeeded()
	waived.Effective.Limits.Pids, waived.Requested.StandingWaivers = sandbox.Unlimited, []string{"pids"}
	if text, fields := marshalled(waived); len(fields) != len(always) {
		t.Error("the configuration waives it: ", text)
	}
	if _, fields := marshalled(waived, api.SectionPolicy); !strings.Contains(string(fields["policy"]),
		`"name":"pids"`) {
		t.Errorf("included: %s", fields["policy"])
	}
	r := succeeded()
	r.Compiled = &sandbox.Compiled{ExitCode: -1, Failed: true}
	if text, _ := marshalled(r); !strings.Contains(text,
		`"phase":"compile","compile":{"exit_code":null,"stdout":"","stderr":"",`) {
		t.Error(text)
	}
	r.Usage.OOMKills = 2
	if text, _ := marshalled(r); !strings.Contains(text, `"oom_kills":2`) {
		t.Error(text)
	}
}

func TestFiles(t *testing.T) {
	r := succeeded()
	r.Files = []sandbox.File{{Path: "a", Mode: 0o755, Data: []byte("€")}, {Path: "b", Mode: 0o600,
		Data: []byte("\xff")}, {Path: "c", Mode: 0o644, Data: []byte("a\x00")}, {Path: "d", Mode: 0o4, Data: nil}}
	var got []string
	for _, f := range New(wording.HTTP, r).Files {
		f.SHA256 = f.SHA256[:4]
		got = append(got, string(marshal(f)))
	}
	want := []string{
		`{"path":"a","mode":"0755","size":3,"sha256":"c4cc","content":"€"}`,
		`{"path":"b","mode":"0600","size":1,"sha256":"a810","content_base64":"/w=="}`,
		`{"path":"c","mode":"0644","size":2,"sha256":"ffe9","content_base64":"YQA="}`,
		`{"path":"d","mode":"0004","size":0,"sha256":"e3b0","content":""}`,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func FuzzShow(f *testing.F) {
	f.Add([]byte("a€"), []byte("\xff"), int64(3))
	f.Add([]byte{}, []byte{}, int64(0))
	f.Fuzz(func(t *testing.T, head, tail []byte, dropped int64) {
		if dropped <= 0 {
			dropped, head, tail = 0, append(head, tail...), nil
		}
		s := render(sandbox.Captured{Head: head, Tail: tail, Dropped: dropped})
		if !utf8.ValidString(s.text) || s.Truncated != (dropped > 0) {
			t.Fatalf("%+v", s)
		}
		if s.Base64 != nil && (!bytes.Equal(s.Base64[:s.DroppedAt], head) || !bytes.Equal(s.Base64[s.DroppedAt:],
			tail)) && dropped > 0 {
			t.Fatalf("%+v", s)
		}
		if dropped == 0 && s.DroppedAt != 0 {
			t.Fatalf("a gap where nothing is missing: %+v", s)
		}
		if s.Base64 == nil && dropped == 0 && s.text != string(head) {
			t.Fatalf("%q became %q", head, s.text)
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	r := succeeded()
	var buf bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		largejson.Encode(&buf, New(wording.HTTP, r, api.Sections...))
	}
}

// TestHintsOfOneRun: the parts of a hint agree with it about how the run ended.
func TestHintsOfOneRun(t *testing.T) {
	var o api.Outcome
	SetHints(&o, wording.HTTP, []sandbox.Hint{sandbox.HintTimeout{}, sandbox.HintStateKept})
	if *o.Hint != o.Hints[0].Text+" "+o.Hints[1].Text || strings.Contains(*o.Hint, "killed") {
		t.Errorf("%q of %+v", *o.Hint, o.Hints)
	}
}

// TestTracebackOnce: an answer has the traceback once.
func TestTracebackOnce(t *testing.T) {
	const trace = "Traceback\n  x\nE: v"
	for stderr, want := range map[string]string{"a\n" + trace + "\n": "", "Traceback": trace} {
		r := succeeded()
		r.Exception, r.Stderr.Head = &sandbox.Exception{Name: "E", Value: "v", Traceback: trace}, []byte(stderr)
		if a := New(wording.HTTP, r); a.Exception.Traceback != want || a.Exception.Value != "v" {
			t.Errorf("%q: %+v", stderr, a.Exception)
		}
	}
}
