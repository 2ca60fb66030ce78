package fumehood_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/fumehood-dev/fumehood"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func Example() {
	g, err := fumehood.Open(fumehood.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	result, err := g.Run(context.Background(), fumehood.Run{
		Spec: sandbox.Spec{
			Limits: sandbox.Limits{Timeout: time.Minute},
			// An ordinary user may be unable to limit memory. Without this line, that is an error.
			AllowUnenforced: []string{"memory"},
		},
		Request: sandbox.Request{
			Language: "python",
			Code:     []byte("import sys\nprint(sum(map(int, sys.stdin)))\nopen('done.txt', 'w').write('yes')\n"),
			Stdin:    []byte("40\n2\n"),
			Return:   sandbox.Return{Globs: []string{"*.txt"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s", result.Status, result.Stdout.Head)
	for _, f := range result.Files {
		fmt.Println(f.Path, string(f.Data))
	}
	// Output:
	// succeeded: 42
	// done.txt yes
}

// A failed program is a status, not an error.
func ExampleFumehood_Run_exception() {
	g, err := fumehood.Open(fumehood.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	result, err := g.Run(context.Background(), fumehood.Run{
		Spec:    sandbox.Spec{AllowUnenforced: []string{"memory"}},
		Request: sandbox.Request{Language: "python", Code: []byte("print(1 / 0)")},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Status, result.ExitCode)
	fmt.Println(result.Exception.Name, "-", result.Exception.Value)
	// Output:
	// failed 1
	// ZeroDivisionError - division by zero
}

// A living sandbox keeps variables, imports and files between executions.
func ExampleFumehood_Create() {
	g, err := fumehood.Open(fumehood.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()

	s, err := g.Create(context.Background(), fumehood.Living{Name: "agent-7", Spec: sandbox.Spec{AllowUnenforced: []string{"memory"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, code := range []string{"import statistics; seen = [40, 44]", "print(len(seen), 'so far'); statistics.mean(seen)"} {
		result, err := s.Run(context.Background(), fumehood.Exec{Request: sandbox.Request{Language: "python", Code: []byte(code)}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s", result.Stdout.Head)
		for _, shown := range result.Shown {
			fmt.Printf("%s\n", shown.Forms[0].Data)
		}
	}
	// Output:
	// 2 so far
	// 42
}
