package main

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestClientTools: functions of the Go client answer calls of code, also of a run that another request started.
func TestClientTools(t *testing.T) {
	isNativeReady(t)
	d := &dayServer{t: t, dir: shortDir(t), backend: "native"}
	d.start()
	defer d.stop(os.Interrupt)
	if _, _, err := d.client.Create(t.Context(), api.SandboxRequest{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	defer d.client.Remove(context.Background(), "s")
	type query struct {
		N int `json:"n"`
	}
	square, err := client.NewTool("square", "Squares.", func(_ context.Context, q query) (any, error) {
		switch {
		case q.N < 0:
			return nil, errors.New("too small")
		case q.N > 9:
			panic("too large")
		}
		return q.N * q.N, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	code := "for n in 3, -1, 10:\n  try: print(square(n), flush=True)\n  except ToolError as e: print(e)"
	plain := "print(6 * 7)"
	request := api.SandboxRunRequest{Program: api.Program{Code: &code}}
	want := "9\ntoo small\nthe tool panicked: too large\n"
	var printed []byte
	take := func(e client.Event) error {
		if e.Output != nil {
			printed = append(printed, e.Output.Data...)
		}
		return e.Failed
	}
	tools := []sandbox.Tool{square}
	if err := d.client.StreamTools(t.Context(), "s", request, tools, take); err != nil || string(printed) != want {
		t.Errorf("%v: %q", err, printed)
	}
	printed = nil
	once := api.RunRequest{Program: api.Program{Code: &code, Language: "python"}}
	if err := d.client.StreamOneShot(t.Context(), once, tools, take); err != nil || string(printed) != want {
		t.Errorf("%v: %q", err, printed)
	}
	once = api.RunRequest{Program: api.Program{Code: &plain, Language: "python"}}
	if a, err := d.client.RunOneShot(t.Context(), once); err != nil || a.Stdout != "42\n" {
		t.Errorf("%v: %+v", err, a)
	}
	request.Tools, printed = client.Tools(square), nil
	run, err := d.client.Start(t.Context(), "s", request)
	if err != nil {
		t.Fatal(err)
	}
	err = d.client.Follow(t.Context(), "s", string(run.ID), client.From{Wait: true, Tools: tools}, take)
	if err != nil || string(printed) != want {
		t.Errorf("%v: %q", err, printed)
	}
	if err := d.client.Answer(t.Context(), "s", string(run.ID), 1, api.CallAnswer{}); sandbox.KindOf(err) !=
		sandbox.NotFound {
		t.Errorf("an answer after the end: %v", err)
	}
}
