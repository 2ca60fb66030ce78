package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func BenchmarkContext(b *testing.B) {
	set, err := backend.Open(backend.Options{Libexec: os.Getenv("FUMEHOOD_LIBEXEC"), RunDir: filepath.Join(b.TempDir(), "run")})
	if err != nil {
		b.Skip(err)
	}
	defer set.Close()
	e, err := engine.New(engine.Config{Backends: set.Backends, Default: "native", Languages: lang.All()})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	s, _, err := e.Create(within(b), engine.Living{Name: "a"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Run(within(b), engine.Exec{Request: sandbox.Request{Language: "python", Code: []byte("x=1")}}); err != nil {
			b.Fatal(err)
		}
	}
}
