package httpapi_test

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// usedVolumes is a store with a volume that many sandboxes mount.
type usedVolumes struct {
	engine.VolumeStore
	sandbox.NamedVolume
}

func (u usedVolumes) List(_ string, report func(int)) ([]sandbox.NamedVolume, error) {
	report(len(u.Users))
	for range others {
		report(0)
	}
	return []sandbox.NamedVolume{u.NamedVolume}, nil
}

func (u usedVolumes) Find(string, string) (sandbox.NamedVolume, error) { return u.NamedVolume, nil }

const others = 100 // volumes

// TestUsersWork: each volume is work of an answer that lists it, and so is each sandbox that mounts it.
func TestUsersWork(t *testing.T) {
	const users = 200
	used := usedVolumes{NamedVolume: sandbox.NamedVolume{Name: "a", Users: make([]sandbox.VolumeUser, users)}}
	r := newRig(t, engine.Config{Volumes: engine.VolumeConfig{Store: used}}, httpd.Config{})
	work := map[string]float64{}
	for _, path := range []string{"/v1/volumes", "/v1/volumes/a"} {
		before := r.work()
		r.ok(200, "GET", path, "")
		work[path] = r.work() - before
		if each := work[path] / users; each < 100e-6 || each > 1e-3 {
			t.Errorf("%s: a sandbox is %.0f µs of work", path, each*1e6)
		}
	}
	if each := (work["/v1/volumes"] - work["/v1/volumes/a"]) / others; each < 20e-6 {
		t.Errorf("a volume is %.0f µs of work", each*1e6)
	}
}
