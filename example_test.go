package fumehood_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// open opens Fumehood for the examples. An ordinary user without systemd cannot limit memory: the waiver permits runs
// without that limit there. Where memory can be limited, it changes nothing.
func open() *fumehood.Fumehood {
	f, err := fumehood.Open(fumehood.Config{AllowUnenforced: []string{"memory"}})
	if err != nil {
		log.Fatal(err)
	}
	return f
}

func Example() {
	f := open()
	defer f.Close()

	result, err := f.Run(context.Background(), fumehood.OneShot{
		Request: sandbox.Request{Language: "python", Code: []byte("print(6 * 7)")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s", result.Status, result.Stdout.Head)
	// Output:
	// succeeded: 42
}

// Code calls a function of the program.
func ExampleNewTool() {
	f := open()
	defer f.Close()

	type query struct {
		Word string `json:"word"`
		Most int    `json:"most,omitempty"`
	}
	search, err := fumehood.NewTool("search", "Searches the archive.",
		func(_ context.Context, q query) (any, error) {
			if q.Most > 3 {
				return nil, fmt.Errorf("%d are too many", q.Most)
			}
			return strings.Split(strings.Repeat(q.Word+" ", q.Most)+"end", " "), nil
		})
	if err != nil {
		log.Fatal(err)
	}
	code := "print(search('cat', most=2))\ntry: search('cat', most=4)\nexcept ToolError as e: print(e)"
	result, err := f.Run(context.Background(), fumehood.OneShot{
		Request: sandbox.Request{Language: "python", Code: []byte(code),
			Calls: sandbox.Calls{Tools: []sandbox.Tool{search}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", result.Stdout.Head)
	// Output:
	// ['cat', 'cat', 'end']
	// 4 are too many
}

// Files go in with the request, and those that match a pattern come back.
func ExampleFumehood_Run_files() {
	f := open()
	defer f.Close()

	code := "open('out.txt', 'w').write(open('in.txt').read().upper())"
	result, err := f.Run(context.Background(), fumehood.OneShot{
		Spec: sandbox.Spec{Limits: sandbox.Limits{Timeout: time.Minute}},
		Request: sandbox.Request{
			Language: "python", Code: []byte(code),
			Files:  []sandbox.File{{Path: "in.txt", Data: []byte("hello")}},
			Return: sandbox.Return{Globs: []string{"*.txt"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range result.Files {
		fmt.Printf("%s: %s\n", file.Path, file.Data)
	}
	// Output:
	// out.txt: HELLO
}

// A failed program is a status. An error means that Fumehood refused or failed, and its kind says what to do.
func ExampleFumehood_Run_errors() {
	f := open()
	defer f.Close()

	for _, code := range []string{"print(1 / 0)", ""} {
		result, err := f.Run(context.Background(), fumehood.OneShot{
			Request: sandbox.Request{Language: "python", Code: []byte(code)},
		})
		if err != nil {
			fmt.Println(sandbox.KindOf(err))
			continue
		}
		fmt.Println(result.Status, result.ExitCode, result.Exception.Name, "-", result.Exception.Value)
	}
	// Output:
	// failed 1 ZeroDivisionError - division by zero
	// invalid
}

// A living sandbox keeps variables, imports and files between runs. The value of the last expression is a result.
func ExampleFumehood_Create() {
	ctx := context.Background()
	f := open()
	defer f.Close()

	s, _, err := f.Create(ctx, fumehood.Create{Name: "agent-7"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, code := range []string{"import statistics; seen = [40, 44]", "statistics.mean(seen)"} {
		result, err := s.Run(ctx, fumehood.Request{Request: sandbox.Request{Language: "python", Code: []byte(code)}})
		if err != nil {
			log.Fatal(err)
		}
		for _, value := range result.Results {
			fmt.Printf("%s\n", value.Forms[0].Data)
		}
	}
	// Output:
	// 42
}

// A run can be followed while it runs, also from another goroutine or after an interruption: after is the id of the
// last event that was seen.
func ExampleRun_Follow() {
	ctx := context.Background()
	f := open()
	defer f.Close()

	s, _, err := f.Create(ctx, fumehood.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	run, err := s.Start(ctx, fumehood.Request{
		Request:    sandbox.Request{Command: []string{"sh", "-c", "echo working; echo failed >&2; exit 3"}},
		Background: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	text := map[fumehood.EventKind]*strings.Builder{fumehood.EventStdout: {}, fumehood.EventStderr: {}}
	err = run.Follow(ctx, 0, func(e fumehood.Event) error {
		if t := text[e.Kind]; t != nil {
			t.Write(e.Data)
		}
		if e.Kind == fumehood.EventDone {
			fmt.Println("exit code", e.Done.ExitCode)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text[fumehood.EventStdout].String() + text[fumehood.EventStderr].String())
	// Output:
	// exit code 3
	// working
	// failed
}

// The code reaches the hosts of the policy only. It gets a placeholder for the key; the gate replaces it by the value
// in requests to this host.
func ExampleFumehood_Run_network() {
	f := open()
	defer f.Close()

	result, err := f.Run(context.Background(), fumehood.OneShot{
		Spec: sandbox.Spec{Network: sandbox.NetworkPolicy{
			Mode: sandbox.NetworkRestricted,
			Secrets: []sandbox.Secret{
				{Name: "API_KEY", Hosts: []string{"api.example.org"}, Value: os.Getenv("API_KEY")},
			},
		}},
		Request: sandbox.Request{Command: []string{"sh", "-c",
			`curl -s -H "Authorization: Bearer $API_KEY" https://api.example.org/v1/items`}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", result.Stdout.Head)
}

// The packages that the code imports are installed once, in a separate sandbox, and cached.
func ExampleFumehood_Run_packages() {
	f := open()
	defer f.Close()

	result, err := f.Run(context.Background(), fumehood.OneShot{
		Request: sandbox.Request{
			Language: "python",
			Code:     []byte("import humanize\nprint(humanize.intcomma(1234567))"),
			Packages: sandbox.Packages{Auto: true},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", result.Stdout.Head)
}

// Files of a living sandbox are read and written at any time.
func ExampleSandbox_WriteFile() {
	ctx := context.Background()
	f := open()
	defer f.Close()

	s, _, err := f.Create(ctx, fumehood.Create{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := s.WriteFile(ctx, "data/a.csv", 0, strings.NewReader("x,y\n1,2\n")); err != nil {
		log.Fatal(err)
	}
	var content bytes.Buffer
	info, err := s.ReadFile(ctx, "data/a.csv", 0, 0, &content)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Type, info.Size, content.String())
	// Output:
	// file 8 x,y
	// 1,2
}
