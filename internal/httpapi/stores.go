package httpapi

import (
	"cmp"
	"context"
	"hash/maphash"
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

// imageSteps is the work of reading the record of an image.
const imageSteps = 8

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
	users := map[string][]sandbox.ID{} // by the digest of their root
	a.eachLiving(w, func(s *engine.Info) {
		users[s.Spec.Root.Digest] = append(users[s.Spec.Root.Digest], s.ID)
	})
	out := a.NewList(w, "images")
	for i := range images {
		w.Steps(imageSteps) // also of images that the answer omits
		image := &images[i]
		shown := api.StoredImage{Name: image.Name, Digest: image.Digest, Bytes: image.Bytes, Template: image.Built,
			AddedAt: image.AddedAt.UTC(), UsedAt: image.UsedAt.UTC()}
		if w.Operator {
			shown.Owner = image.Owner
		} else if shown.Name = a.nameFor(w.Key, image); shown.Name == "" {
			continue
		}
		shown.Sandboxes = answer.List(users[image.Tree])
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

// The work of reading the record of a layer: besides its packages and its bytes, and how often the bytes count.
const (
	layerSteps = 10
	layerReads = 2
)

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
	installed, err := a.installed(w, r)
	if err != nil {
		return err
	}
	out := a.NewList(w, "layers")
	if !w.Operator && len(installed.all) == 0 {
		return out.End(nil)
	}
	err = cache.Each(func(l *packages.Layer) error {
		if r.Context().Err() != nil {
			return context.Cause(r.Context())
		}
		w.Steps(layerSteps + len(l.Packages)/4) // also of layers that the answer omits
		w.Work(layerReads * int(l.RecordBytes))
		if !w.Operator {
			l.Requested = slices.DeleteFunc(l.Requested, func(text string) bool { return !installed.requested[text] })
		}
		shown := api.PackageLayer{Digest: l.Digest, Language: l.Language, Requested: answer.List(l.Requested),
			Packages: make([]api.NamedPackage, len(l.Packages)), Bytes: l.Bytes, Files: l.Files, Hits: l.Hits,
			MadeAt: l.Made.UTC(), UsedAt: l.Used.UTC(),
			Sandboxes: installed.users(l.Packages)}
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

// installations are the packages of sandboxes, as hashes of name, version and hash: a sandbox may have 5000 packages.
type installations struct {
	ids       []sandbox.ID
	seed      maphash.Seed
	all       []installation  // sorted
	requested map[string]bool // the requirements that installed them
}

// installation is a package of the sandbox at a place of the list.
type installation struct {
	sum uint64
	at  int
}

func (i installation) compare(other installation) int {
	return cmp.Or(cmp.Compare(i.sum, other.sum), cmp.Compare(i.at, other.at))
}

// Sizes of what installations hold, in bytes.
const (
	perPackage     = 16
	perRequirement = 64 // besides its text
)

// installed returns the packages of the sandboxes of a request. It holds nothing else of them while the client reads.
func (a *apiV1) installed(w *httpd.Response, r *http.Request) (*installations, error) {
	packages, size := 0, int64(0)
	a.eachLiving(w, func(s *engine.Info) {
		for _, added := range s.Packages {
			packages += len(added.Installed)
			for _, text := range added.Requirements {
				size += perRequirement + int64(len(text))
			}
		}
	})
	if err := a.Reserve(r.Context(), w, size+perPackage*int64(packages)); err != nil {
		return nil, err
	}
	x := newInstallations(packages)
	a.eachLiving(w, x.add)
	x.sort()
	return x, nil
}

// newInstallations returns installations with room for so many packages.
func newInstallations(packages int) *installations {
	return &installations{seed: maphash.MakeSeed(), all: make([]installation, 0, packages),
		requested: map[string]bool{}}
}

// add adds the packages of a sandbox. The caller calls sort after the last one.
func (x *installations) add(s *engine.Info) {
	for _, added := range s.Packages {
		for n := range added.Installed {
			x.all = append(x.all, installation{x.sum(&added.Installed[n]), len(x.ids)})
		}
		for _, text := range added.Requirements {
			x.requested[text] = true
		}
	}
	x.ids = append(x.ids, s.ID)
}

func (x *installations) sort() {
	slices.SortFunc(x.all, installation.compare)
	x.all = slices.Compact(x.all)
}

func (x *installations) sum(p *sandbox.Package) uint64 {
	return maphash.Comparable(x.seed, [3]string{p.Name, p.Version, p.Hash})
}

// users returns the sandboxes that have all packages of a layer. Its time is proportional to the number of sandboxes
// and packages.
func (x *installations) users(layer []sandbox.Package) []sandbox.ID {
	var have []int // places of the sandboxes that have all packages up to now
	for n := range layer {
		sum, next, kept := x.sum(&layer[n]), 0, 0
		at, _ := slices.BinarySearchFunc(x.all, installation{sum: sum}, installation.compare)
		for ; at < len(x.all) && x.all[at].sum == sum; at++ {
			one := x.all[at].at
			if n == 0 {
				have = append(have, one)
			}
			for next < len(have) && have[next] < one {
				next++
			}
			if next < len(have) && have[next] == one {
				have[kept], kept = one, kept+1
			}
		}
		have = have[:kept]
	}
	ids := make([]sandbox.ID, len(have))
	for i, at := range have {
		ids[i] = x.ids[at]
	}
	return ids
}

// eachLiving hands the living sandboxes that the key of a request may see to take.
func (a *apiV1) eachLiving(w *httpd.Response, take func(*engine.Info)) {
	var page []sandbox.ID
	var after sandbox.ID
	var err error
	for more := true; more; {
		if w.Operator {
			page, more, err = a.Engine().SandboxesOfAny(nil, after, 0)
		} else {
			page, more, err = a.Engine().Sandboxes(w.Key, nil, after, 0)
		}
		if err != nil {
			return // the last of the page has ended meanwhile
		}
		for _, id := range page {
			w.Steps(1)
			if s := a.Engine().Living(id); s != nil {
				info := s.Info()
				take(&info)
			}
			after = id
		}
	}
}
