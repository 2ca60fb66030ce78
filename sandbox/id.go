package sandbox

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
)

// ID names one sandbox or run: 26 characters of a-z and 2-7, which carry 128 random bits. Every name on the host
// derives from it, so its alphabet is safe in paths, cgroup names and labels. IDs are never reused.
type ID string

const idLength = 26

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns a fresh random ID.
func NewID() ID {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand crashes the program rather than return an error
	return ID(idEncoding.EncodeToString(b[:]))
}

// ParseID checks that s is an ID, so that nothing else becomes part of a path or a name.
func ParseID(s string) (ID, error) {
	if len(s) != idLength || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", &Error{Kind: Invalid, Op: "parse id", Msg: "an id is 26 characters of a-z and 2-7"}
	}
	return ID(s), nil
}
