// Package shared is the second tier of the package cache. Redis stores the answers and the locks; a folder stores
// the archives. Each call opens its own connection, because calls are rare: they belong to installations. So a tier
// needs no Close.
//
// In Redis, fumehood:packages:answer:KEY is the answer to a key, until it expires, and fumehood:packages:lock:KEY is
// the holder of a lock, until its lease expires. An archive is DIGEST.tar.gz.
package shared

import (
	"net/url"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Open returns the tier of two addresses: redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] (rediss:// with TLS), and
// file:///DIR, a folder that is created on the first use. It does not connect. Errors: Invalid; they contain no
// address, which may have a password.
func Open(answers, archives string) (packages.Shared, error) {
	var none packages.Shared
	a, err := url.Parse(answers)
	if err != nil || a.Scheme != "redis" && a.Scheme != "rediss" || a.Hostname() == "" || a.RawQuery != "" ||
		!databasePattern().MatchString(a.Path) {
		return none, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-share",
			Msg: "it is not the address of a Redis server",
			Fix: "use --package-share redis://HOST:6379/0, or rediss:// for TLS"}
	}
	b, err := url.Parse(archives)
	if err != nil || b.Scheme != "file" || b.Host != "" || b.Path == "" {
		return none, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-archive",
			Fix: "use --package-archive file:///DIR",
			Msg: "it is not the address of a folder"}
	}
	return packages.Shared{Answers: redisAnswers{address: a}, Archives: folder{filepath.FromSlash(b.Path)}}, nil
}

var databasePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(/[0-9]{0,4})?$`)
})

// HasPassword reports whether an address contains a password.
func HasPassword(address string) bool {
	u, err := url.Parse(address)
	return err != nil || u.User != nil // Redis treats a user without a password as the password
}
