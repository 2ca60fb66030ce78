package main

import "testing"

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
