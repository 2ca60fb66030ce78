package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/internal/template"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Stores are what a server keeps beside its sandboxes. A nil field is a server without it.
type Stores struct {
	Templates *template.Builder
	Images    func() (*image.Store, error)
	Packages  func() (*packages.Cache, error)
}

// listImages is GET /v1/images. An operator sees all. Other keys see what they may name, but no templates of others.
func (a *apiV1) listImages(w *httpd.Response, _ *http.Request) error {
	if a.stores.Images == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "images", Msg: "this server keeps no images"}
	}
	store, err := a.stores.Images()
	if err != nil {
		return err
	}
	images, err := store.List()
	if err != nil {
		return err
	}
	living := a.livingOf(w)
	out := a.NewList(w, "images")
	for i := range images {
		image := &images[i]
		shown := api.StoredImage{Name: image.Name, Digest: image.Digest, Bytes: image.Bytes, Template: image.Built,
			AddedAt: image.AddedAt.UTC(), UsedAt: image.UsedAt.UTC()}
		if w.Operator {
			shown.Owner = image.Owner
		} else if shown.Name = a.nameFor(w.Key, image); shown.Name == "" {
			continue
		}
		shown.Sandboxes = users(living, func(s *engine.Info) bool { return s.Spec.Root.Digest == image.Tree })
		if err := out.Add(shown); err != nil {
			return out.Fail(err)
		}
	}
	return out.End(nil)
}

// nameFor returns how requests of an owner may name an image; "" if they may not, or if it is a template of another.
func (a *apiV1) nameFor(owner string, i *image.Image) string {
	if i.Owner != "" && i.Owner != owner {
		return ""
	}
	for _, name := range i.Spellings() {
		if a.Engine().Offers(owner, name) {
			return name
		}
	}
	return ""
}

// listPackages is GET /v1/packages. An operator sees all layers. Other keys see those whose packages their sandboxes
// have, without requirements that only another key has written, so that the list does not reveal the requests of
// others.
func (a *apiV1) listPackages(w *httpd.Response, r *http.Request) error {
	if a.stores.Packages == nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "packages are not installed here"}
	}
	cache, err := a.stores.Packages()
	if err != nil {
		return err
	}
	living := a.livingOf(w)
	installed, requested := installedIn(living), requestedBy(living)
	out := a.NewList(w, "layers")
	if !w.Operator && len(installed) == 0 {
		return out.End(nil)
	}
	err = cache.Each(func(l *packages.Layer) error {
		if r.Context().Err() != nil {
			return context.Cause(r.Context())
		}
		if !w.Operator {
			l.Requested = slices.DeleteFunc(l.Requested, func(text string) bool { return !requested[text] })
		}
		shown := api.PackageLayer{Digest: l.Digest, Language: l.Language, Requested: answer.List(l.Requested),
			Packages: make([]api.NamedPackage, len(l.Packages)), Bytes: l.Bytes, Files: l.Files, Hits: l.Hits,
			MadeAt: l.Made.UTC(), UsedAt: l.Used.UTC(),
			Sandboxes: users(living, func(s *engine.Info) bool { return hasAll(installed[s.ID], l.Packages) })}
		if !w.Operator && len(shown.Sandboxes) == 0 {
			return nil
		}
		for i, p := range l.Packages {
			shown.Packages[i] = api.NamedPackage{Name: p.Name, Version: p.Version}
		}
		return out.Add(shown)
	})
	if err != nil {
		return out.Fail(err)
	}
	return out.End(nil)
}

// installation identifies a package by its name, its version and its hash.
type installation [3]string

// installedIn returns the packages of each sandbox that has any.
func installedIn(living []engine.Info) map[sandbox.ID]map[installation]bool {
	all := map[sandbox.ID]map[installation]bool{}
	for i := range living {
		for _, added := range living[i].Packages {
			for _, p := range added.Installed {
				if all[living[i].ID] == nil {
					all[living[i].ID] = map[installation]bool{}
				}
				all[living[i].ID][installation{p.Name, p.Version, p.Hash}] = true
			}
		}
	}
	return all
}

// requestedBy returns the requirements of sandboxes.
func requestedBy(living []engine.Info) map[string]bool {
	all := map[string]bool{}
	for i := range living {
		for _, added := range living[i].Packages {
			for _, text := range added.Requirements {
				all[text] = true
			}
		}
	}
	return all
}

// hasAll reports whether a sandbox has all packages of a layer.
func hasAll(has map[installation]bool, layer []sandbox.Package) bool {
	return len(layer) > 0 && !slices.ContainsFunc(layer, func(p sandbox.Package) bool {
		return !has[installation{p.Name, p.Version, p.Hash}]
	})
}

// livingOf returns the living sandboxes that the key of a request may see.
func (a *apiV1) livingOf(w *httpd.Response) (list []engine.Info) {
	var page []*engine.Sandbox
	var after sandbox.ID
	var err error
	for more := true; more; {
		if w.Operator {
			page, more, err = a.Engine().SandboxesOfAny(nil, after, 0)
		} else {
			page, more, err = a.Engine().Sandboxes(w.Key, nil, after, 0)
		}
		if err != nil {
			return list // the last of the page has ended meanwhile
		}
		for _, s := range page {
			list, after = append(list, s.Info()), s.ID()
		}
	}
	return list
}

// users returns the ids of the sandboxes that fit.
func users(living []engine.Info, fits func(*engine.Info) bool) []sandbox.ID {
	list := []sandbox.ID{}
	for i := range living {
		if fits(&living[i]) {
			list = append(list, living[i].ID)
		}
	}
	return list
}
