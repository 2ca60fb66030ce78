// Package shared is the second tier of the cache of packages: Redis has the answers and the locks, any store that gocloud.dev/blob has a driver
// for has the archives. Nothing is dialled or opened before it is needed, and nothing stays open between two calls, which are rare: they come
// with installations. So a tier needs no Close.
//
// In Redis, fumehood:packages:answer:KEY is the answer to a key, until its time is over, and fumehood:packages:lock:KEY the holder of a lock,
// until its lease is over. An archive is DIGEST.tar.gz.
package shared

import (
	"net/url"
	"regexp"

	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Open returns the tier of two addresses: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] (rediss:// with TLS), and that of a bucket, such as
// file:///DIR, which is made if it is not there. It dials nobody. Errors: Invalid; they repeat no address, as that may hold a password.
func Open(answers, archives string) (packages.Shared, error) {
	var none packages.Shared
	a, err := url.Parse(answers)
	if err != nil || a.Scheme != "redis" && a.Scheme != "rediss" || a.Hostname() == "" || !databasePattern.MatchString(a.Path) || a.RawQuery != "" {
		return none, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-share", Msg: "it is not the address of a Redis server", Fix: "--package-share redis://HOST:6379/0, or rediss:// for TLS"}
	}
	b, err := url.Parse(archives)
	if err != nil || !linked(b.Scheme) || b.Scheme == "file" && (b.Host != "" || b.Path == "") {
		return none, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-archive", Msg: "it is not the address of a bucket that this program has a driver for", Fix: "--package-archive file:///DIR"}
	}
	return packages.Shared{Answers: redisAnswers{address: a}, Archives: bucket{withDefaults(b)}}, nil
}

var databasePattern = regexp.MustCompile(`^(/[0-9]{0,4})?$`)

// HasPassword reports whether an address holds a password.
func HasPassword(address string) bool {
	u, err := url.Parse(address)
	return err != nil || u.User != nil // Redis takes a user alone for a password
}
