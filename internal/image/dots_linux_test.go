package image

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDots: a name leads to no other repository than its text shows. Registries clean paths, as http.ServeMux does.
func TestDots(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/secret/app:a")
	if err == nil {
		err = remote.Write(ref, imageOf(t, layerOf(t, entry{0, "a", "secret", 0o644})))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	for _, text := range []string{"/team/../secret/app:a", "/./secret/app:a", "/team/..//secret/app:a"} {
		if i, err := s.Pull(t.Context(), host+text, nil); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%s is %s, %v", text, i.Name, err)
		}
	}
	if _, err := s.Pull(t.Context(), host+"/secret/app:a", nil); err != nil {
		t.Error(err)
	}
}
