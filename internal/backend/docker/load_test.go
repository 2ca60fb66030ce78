package docker

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/image"
)

// TestLoadedImagesAreBounded: the images of the store that an engine has take a bounded place: the least recently used
// ones go first. One in use stays, and so do images of others.
func TestLoadedImagesAreBounded(t *testing.T) {
	const repository = "localhost/fumehood:"
	images := []image.Summary{
		{RepoTags: []string{repository + "new"}, Size: 10, Created: 1},
		{RepoTags: []string{repository + "busy"}, Size: 10, Created: 2},
		{RepoTags: []string{repository + "used"}, Size: 10, Created: 3},
		{RepoTags: []string{repository + "old", "other:1"}, Size: 10, Created: 4},
		{RepoTags: []string{repository + "older"}, Size: 10, Created: 3},
		{RepoTags: []string{repository + "recent"}, Size: 10, Created: 5},
	}
	var removed []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.44")
		w.Header().Set("Content-Type", "application/json")
		switch tag := path.Base(r.URL.Path); {
		case strings.HasSuffix(r.URL.Path, "/images/json"):
			if f := r.URL.Query().Get("filters"); !strings.Contains(f, repository+"*") {
				t.Errorf("it lists %s", f)
			}
			_ = json.NewEncoder(w).Encode(images)
		case r.Method == http.MethodDelete && strings.HasSuffix(tag, ":busy"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"message":"a container uses it"}`))
		case r.Method == http.MethodDelete:
			removed = append(removed, tag)
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer server.Close()
	api, err := newClient(&endpoint{host: "tcp://" + server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	e := &engine{options: &Options{Name: Name, ImageBytes: 40}, used: map[string]time.Time{}}
	e.noteUse(repository + "used")
	to := &connection{api: api, engine: e}
	to.makeRoom(within(t), repository+"new")
	if want := []string{"fumehood:older", "fumehood:old"}; !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
}
