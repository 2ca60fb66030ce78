package main

import "testing"

// TestPrivateOffers: a private server mounts any directory only for the user who started it.
func TestPrivateOffers(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		listen, keys string
		dirs         []string
		offers       bool
	}{
		"of a user": {"unix:/run/x", "", nil, true}, "at an address": {"127.0.0.1:0", "", nil, false},
		"with keys":   {"unix:/run/x", "keys", nil, false},
		"with a list": {"unix:/run/x", "", []string{"/usr:ro"}, false},
	} {
		var f serveFlags
		f.living.private, f.living.volumes.most, f.living.volumes.dirs = true, 1, c.dirs
		f.door.listen, f.door.keyFile = c.listen, c.keys
		if err := testApp(t).offerVolumes(&f, nil); err != nil {
			t.Fatal(name, err)
		}
		if err := f.config.Volumes.Dir(dir, true); (err == nil) != c.offers {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckOffered: the innermost offered directory decides whether requests may write, in any order of the flags.
func TestCheckOffered(t *testing.T) {
	offered := []volumeDir{{"/srv", true}, {"/srv/work", false}, {"/srv/work/refs", true}}
	for dir, want := range map[string]struct{ read, write bool }{
		"/srv": {true, false}, "/srv/x": {true, false}, "/srv/work/x": {true, true}, "/srv/workx": {true, false},
		"/srv/work":        {true, false}, // with it, /srv/work/refs could be written to
		"/srv/work/refs/x": {true, false}, "/": {}, "/sr": {}, "/etc": {},
	} {
		for _, list := range [][]volumeDir{offered, {offered[2], offered[1], offered[0]}} {
			if err := checkOffered(list, dir, true); (err == nil) != want.read {
				t.Errorf("read %s with %v: %v", dir, list, err)
			}
			if err := checkOffered(list, dir, false); (err == nil) != want.write {
				t.Errorf("write %s with %v: %v", dir, list, err)
			}
		}
	}
}
