package e2bapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Tokens makes the access tokens of sandboxes: the name of the owner, and a code of it, of the hash of the API key that
// got the token, and of the sandbox's id (HMAC-SHA256, RFC 2104). So a token needs no memory, is valid for its sandbox
// only, and ends with that key.
type Tokens struct{ key []byte }

// keyFile is the file of the key, in the state folder.
const keyFile = "e2b.key"

// NewTokens returns tokens that are valid until the program ends.
func NewTokens() *Tokens {
	t := &Tokens{key: make([]byte, sha256.Size)}
	rand.Read(t.key) // never fails
	return t
}

// OpenTokens returns tokens that remain valid after a restart. state is the folder with their key, which it may create.
func OpenTokens(state *os.Root) (*Tokens, error) {
	key, err := state.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		t := NewTokens()
		return t, t.write(state)
	}
	if err == nil && len(key) != sha256.Size {
		err = &sandbox.Error{Kind: sandbox.Unavailable, Op: "read the key of access tokens",
			Msg: "it has the wrong length", Fix: "rm " + filepath.Join(state.Name(), keyFile) + " ; tokens end then"}
	}
	return &Tokens{key}, err
}

// write writes the key to a new file, syncs and renames it: half a key would end all tokens.
func (t *Tokens) write(state *os.Root) error {
	f, err := state.OpenFile(keyFile+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(t.key)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return state.Rename(keyFile+".new", keyFile)
}

// of returns the token of a sandbox for a key of its owner.
func (t *Tokens) of(owner string, key httpd.Identity, id sandbox.ID) string {
	return t.make(owner, "", key, id)
}

// trafficOf returns the token of the sandbox's ports. It opens neither files nor processes, as owners give it to users
// of the program at a port.
func (t *Tokens) trafficOf(owner string, key httpd.Identity, id sandbox.ID) string {
	return t.make(owner, forTraffic, key, id)
}

// forTraffic is added to the name in the code of a token of ports. No name in Base64 ends so.
const forTraffic = "/traffic"

func (t *Tokens) make(owner, use string, key httpd.Identity, id sandbox.ID) string {
	name := base64.RawURLEncoding.EncodeToString([]byte(owner))
	return name + "." + base64.RawURLEncoding.EncodeToString(t.code(name+use, key, id))
}

func (t *Tokens) code(name string, key httpd.Identity, id sandbox.ID) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(name + "." + string(id) + "."))
	if key != (httpd.Identity{}) {
		mac.Write(key[:])
	}
	return mac.Sum(nil)
}

// ownerIn returns the owner that a token names.
func ownerIn(token string) (owner string, ok bool) {
	name, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(name)
	return string(text), err == nil
}

// fits reports whether a token is that of a sandbox, or that of its ports if traffic suffices.
func (t *Tokens) fits(token string, traffic bool, key httpd.Identity, id sandbox.ID) bool {
	name, code, _ := strings.Cut(token, ".")
	given, err := base64.RawURLEncoding.DecodeString(code)
	return err == nil && (hmac.Equal(given, t.code(name, key, id)) ||
		traffic && hmac.Equal(given, t.code(name+forTraffic, key, id)))
}
