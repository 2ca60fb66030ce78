package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

func TestRequestHasWholeProgram(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 12 {
		t.Errorf("only %d programs", len(list))
	}
	for _, p := range list {
		var r liveserver.Request
		if err := json.Unmarshal(p.request(3).Encode(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Language == "" || r.Code != p.code || !slices.Equal(r.Args, []string{"3"}) {
			t.Errorf("%s is sent as %+v", p.name, r)
		}
	}
}

// Variants must differ in their output, or an answer to the wrong client would pass.
func TestControlsDependOnTheirArgument(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p program) bool { return p.name == "pipelines.sh" })
	a, err := list[i].control(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := list[i].control(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if a.stdout == b.stdout {
		t.Error("two arguments give the same output")
	}
}

func TestControlCollectsFiles(t *testing.T) {
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p program) bool { return p.name == "report.py" })
	o, err := list[i].control(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	binary, summary := o.files["out/deep/bytes.bin"], o.files["out/summary.json"]
	if len(o.files) != 2 || len(binary) != 3*256 || !strings.HasPrefix(summary, "{") {
		t.Errorf("files %q", o.files)
	}
}

func TestCheckFindsEveryDifference(t *testing.T) {
	want := outcome{stdout: "1\n", files: map[string]string{"a": "x"}}
	file := func(path, content string) []liveserver.File {
		return []liveserver.File{{Path: path, Content: []byte(content)}}
	}
	good := liveserver.Answer{Status: "succeeded", Stdout: "1\n", Files: file("a", "x")}
	if err := want.check(&good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*liveserver.Answer){
		"status":  func(a *liveserver.Answer) { a.Status = "killed" },
		"stdout":  func(a *liveserver.Answer) { a.Stdout = "2\n" },
		"no file": func(a *liveserver.Answer) { a.Files = nil },
		"content": func(a *liveserver.Answer) { a.Files = file("a", "y") },
		"path":    func(a *liveserver.Answer) { a.Files = file("b", "x") },
	} {
		bad := good
		spoil(&bad)
		if want.check(&bad) == nil {
			t.Errorf("a wrong %s passed", name)
		}
	}
}

func TestLeaks(t *testing.T) {
	before := holdings{fds: 10, goroutines: 10, rss: 20 << 20}
	if found := leaks(before, holdings{fds: 12, goroutines: 11, rss: 30 << 20}); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	one, two, three := make([]string, 1), make([]string, 2), make([]string, 3)
	after := holdings{fds: 100, goroutines: 100, rss: 100 << 20, pids: one, boxes: one, groups: one}
	if found := leaks(before, after); len(found) != 6 {
		t.Errorf("found only %v", found)
	}
	warm := holdings{warm: 2, pids: two, boxes: two, groups: two}
	if found := leaks(holdings{}, warm); len(found) > 0 {
		t.Errorf("warm boxes are reported as leaks: %v", found)
	}
	warm.pids, warm.boxes, warm.groups = three, three, three
	if found := leaks(holdings{}, warm); len(found) != 3 {
		t.Errorf("beside warm boxes, found only %v", found)
	}
}

func TestOrderIsBalancedAndSeeded(t *testing.T) {
	order := orderOf(4, 100, 7)
	counts := make([]int, 4)
	for _, i := range order {
		counts[i]++
	}
	if !slices.Equal(counts, []int{25, 25, 25, 25}) || slices.IsSorted(order) {
		t.Errorf("counts %v", counts)
	}
	if !slices.Equal(order, orderOf(4, 100, 7)) {
		t.Error("the same seed gave another order")
	}
}

func TestControlsAreDeterministic(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: each program twice")
	}
	list, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		first, err := p.control(t.Context(), 5)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		again, err := p.control(t.Context(), 5)
		if err != nil || first.stdout != again.stdout {
			t.Errorf("%s printed %q, then %q, %v", p.name, first.stdout, again.stdout, err)
		}
	}
}
