package keyfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	hashA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hashB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// TestParse: a line sets the limits of a key, and an error names the line and the fix.
func TestParse(t *testing.T) {
	entries, err := parse("keys", "# clients\n\nalice "+hashA+"\r\nbob "+hashB+" operator expires=2027-01-31 "+
		"rate=600/m max-memory=1GiB max-timeout=5m owner-sandboxes=3 max-network=restricted "+
		"network-allow=public,10.0.0.0/8 "+
		"allow-image=python:*,node:*\ncarol sha256:"+strings.Repeat("c", 64)+" allow-image=")
	if err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
	l := entries[1].Limits
	if !l.Operator || l.Rate != (httpd.Rate{Requests: 600, Per: time.Minute}) || l.Max.MemoryBytes != 1<<30 ||
		l.Max.Timeout != 5*time.Minute || l.Sandboxes != 3 || l.Ceiling.Mode != sandbox.NetworkRestricted ||
		len(l.Ceiling.Allow) != 2 || !l.Images("python:3") || l.Images("php:8") || entries[0].Limits.Images != nil {
		t.Errorf("%+v", l)
	}
	if none := entries[2].Limits.Images; none == nil || none("python:3") {
		t.Error("an empty list offers images")
	}
	if day := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC); !entries[1].Expires.Equal(day) ||
		entries[1].Expired(day.Add(-1)) || !entries[1].Expired(day) {
		t.Error(entries[1].Expires)
	}
	for text, wanted := range map[string]string{
		"alice":                                                           "line 1: is not a name and sha256:",
		"alice secret":                                                    "line 1: is not a name and sha256:",
		"alice sha256:aa":                                                 "sha256: must be followed by 64",
		"\nalice " + hashA + " rat=1/s":                                   "line 2: unknown option \"rat\" (did you",
		"alice " + hashA + " rate":                                        "line 1: rate needs a value",
		"alice " + hashA + " rate=1/d":                                    "not a rate, such as 10/s",
		"alice " + hashA + " rate=0/s":                                    "not a rate",
		"alice " + hashA + " rate=1/s rate=2/s":                           "rate is given twice",
		"alice " + hashA + " expires=90d":                                 "not a time; write it like 2027-01-31",
		"alice " + hashA + " owner-sandboxes=0":                           "must be at least 1",
		"alice " + hashA + " max-memory=lots":                             "max-memory",
		"alice " + hashA + " max-network=all":                             "not one of none, restricted, full",
		"alice " + hashA + " allow-image=[":                               "not a pattern",
		"alice " + hashA + " operator=maybe":                              "neither true nor false",
		"alice " + hashA + "\nbob " + hashA:                               "line 2: has the key of line 1",
		"alice " + hashA + " rate=1/s\nalice " + hashB:                    "line 2: alice has other limits on line 1",
		strings.Repeat("a", 65) + " " + hashA:                             "1 to 64 characters",
		"alice " + hashA + " " + strings.Repeat("x", 300):                 "unknown option",
		"alice " + hashA + " network-allow=public max-network=restricted": "",
	} {
		_, err := parse("keys", text)
		shown := ""
		if err != nil {
			shown = err.Error() + "; " + sandbox.FixOf(err)
		}
		if (wanted == "") != (err == nil) || !strings.Contains(shown, wanted) {
			t.Errorf("%q: %q, not %q", text, shown, wanted)
		}
	}
}

// TestChange: concurrent changes keep each other's lines, the mode and comments; a name shares its limits.
func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("# ours\nzoe "+hashA+" rate=5/s"), 0o640); err != nil {
		t.Fatal(err)
	}
	add := func(name string, options ...string) error {
		o := &Options{}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Add(flags)
		for _, option := range options {
			if err := o.set(option); err != nil {
				return err
			}
		}
		_, line, err := New(name, o)
		if err != nil {
			return err
		}
		return Add(path, line)
	}
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() { errs[i] = add(fmt.Sprint("client-", i)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := add("zoe", "expires=1h"); err != nil {
		t.Fatal(err)
	}
	if err := add("zoe", "rate=9/s"); err == nil || !strings.Contains(err.Error(), "other limits") {
		t.Error(err)
	}
	if err := add("zoe", "expires=2020-01-01"); err == nil || !strings.Contains(err.Error(), "has passed") {
		t.Error(err)
	}
	entries, err := Read("--file", path)
	if err != nil || len(entries) != 22 || entries[21].Limits.Rate.Requests != 5 {
		t.Fatalf("%d %v", len(entries), err)
	}
	if _, err := Revoke(path, "zoee", ""); sandbox.FixOf(err) != "did you mean zoe?" {
		t.Error(err, sandbox.FixOf(err))
	}
	if gone, err := Revoke(path, "zoe", "aaaaaaaa"); err != nil || len(gone) != 1 {
		t.Error(gone, err)
	}
	if gone, err := Revoke(path, "zoe", ""); err != nil || len(gone) != 1 {
		t.Error(gone, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "# ours\nclient-") || strings.Contains(string(text), "zoe") {
		t.Errorf("%v\n%s", err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
}
