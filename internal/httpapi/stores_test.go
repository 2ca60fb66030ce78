package httpapi_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpapi"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/internal/template"
	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// supplier installs one package in sandboxes, as layers of nothing.
type supplier struct{ sandbox.Packager }

func (supplier) Supply(context.Context, sandbox.PackageNeed, sandbox.Worker) (*sandbox.Supply, error) {
	return &sandbox.Supply{Packages: []sandbox.Package{{Name: "a", Version: "1"}}, Release: func() {}}, nil
}

// TestStores: an operator sees all images and layers of packages. Another key sees the images that it may name, without
// templates of others, and the layers of its sandboxes.
func TestStores(t *testing.T) {
	images, cache := filepath.Join(t.TempDir(), "images"), t.TempDir()
	store, err := image.Open(images)
	if err != nil {
		t.Fatal(err)
	}
	store.Space = 1 << 20
	stores := httpapi.Stores{
		Templates: &template.Builder{Images: store, Backends: []sandbox.Backend{builders{backendtest.NewFake(t)}}},
		Images:    func() (*image.Store, error) { return image.Open(images) },
		Packages:  func() (*packages.Cache, error) { return packages.OpenCache(cache) },
	}
	keys := map[string]header{}
	var ring []httpd.Key
	for _, name := range []string{"alice", "bob", "root"} {
		key, _ := httpd.NewKey(name, strings.Repeat(name, 11))
		key.Limits.Operator = name == "root"
		key.Limits.Images = func(image string) bool { return name != "bob" || strings.HasPrefix(image, "for-bob") }
		ring, keys[name] = append(ring, key), header{"X-API-Key": strings.Repeat(name, 11)}
	}
	keyring := httpd.NewKeyring(ring...)
	r := newStoringRig(t, engine.Config{Packages: supplier{}, OwnerLimits: keyring.OwnerLimits},
		httpd.Config{Keys: keyring}, stores)

	build := jsonOf(object{"name": "of-alice", "dockerfile": "FROM scratch\nCOPY a /",
		"files": []object{{"path": "a", "content": "text"}}})
	if res, text := r.do("POST", "/v1/templates", build, keys["alice"]); res.StatusCode != http.StatusOK {
		t.Fatal(text)
	}
	made, err := store.Find("of-alice")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"base", "for-bob"} {
		if _, err := store.Put(name, "", made.Tree, made.Config); err != nil {
			t.Fatal(err)
		}
	}
	clients := map[string]*client.Client{}
	for name, want := range map[string]string{
		"root":  "docker.io/library/base:latest docker.io/library/for-bob:latest docker.io/library/of-alice:latest=alice",
		"alice": "docker.io/library/base:latest docker.io/library/for-bob:latest docker.io/library/of-alice:latest",
		"bob":   "for-bob:latest",
	} {
		c, err := client.New(client.Config{Server: "http://" + r.addr, Key: strings.Repeat(name, 11)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[name] = c
		list, err := c.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, i := range list {
			entry := i.Name
			if i.Owner != "" {
				entry += "=" + i.Owner
			}
			got = append(got, entry)
			if i.Bytes != 4096 || !i.Template || i.AddedAt.IsZero() || i.UsedAt.IsZero() || i.Sandboxes == nil {
				t.Errorf("%s: %+v", name, i)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s sees %q", name, got)
		}
	}

	layers, err := trees.Open(cache)
	if err != nil {
		t.Fatal(err)
	}
	for digit, pkg := range map[string]string{"a": "a", "b": "other"} {
		draft, err := layers.NewDraft()
		if err == nil {
			err = draft.Publish(strings.Repeat(digit, 64), packages.Layer{Digest: strings.Repeat(digit, 64),
				Language: "python", Requested: []string{"a", "a>0.5"},
				Packages: []sandbox.Package{{Name: pkg, Version: "1"}}, Bytes: 4096, Files: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, text := r.do("POST", "/v1/sandboxes", `{"packages": ["a"]}`, keys["alice"])
	id := parse[api.Sandbox](t, text).ID
	requested := map[string]int{"root": 2, "alice": 1} // another key wrote the other one
	for name, want := range map[string]int{"root": 2, "alice": 1, "bob": 0} {
		list, err := clients[name].Packages(t.Context())
		if err != nil || len(list) != want {
			t.Errorf("%s sees %+v, %v", name, list, err)
		}
		for _, l := range list {
			if has := len(l.Sandboxes) == 1 && l.Sandboxes[0] == id; has != (l.Packages[0].Name == "a") ||
				l.Bytes != 4096 || len(l.Requested) != requested[name] {
				t.Errorf("%s sees %+v", name, l)
			}
		}
	}
	none := newRig(t, engine.Config{}, httpd.Config{})
	none.refused("GET", "/v1/images", "", nil, http.StatusUnprocessableEntity)
	none.refused("GET", "/v1/packages", "", nil, http.StatusUnprocessableEntity)
}
