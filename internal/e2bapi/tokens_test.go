package e2bapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestTokens: a token is for one sandbox of one owner, and lives as long as its key.
func TestTokens(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	tokens, err := OpenTokens(dir)
	if err != nil {
		t.Fatal(err)
	}
	id, other := sandbox.NewID(), sandbox.NewID()
	key := httpd.Identity{1}
	token := tokens.of("alice", key, id)
	again, err := OpenTokens(dir)
	if err != nil {
		t.Fatal(err)
	}
	if owner, ok := ownerIn(token); !ok || owner != "alice" || !again.fits(token, false, key, id) {
		t.Errorf("%q, %t", owner, ok)
	}
	for _, wrong := range []string{"", ".", token[:len(token)-1], token + "A",
		tokens.of("bob", key, id)[:8] + token[8:], tokens.of("alice", key, other),
		tokens.of("alice", httpd.Identity{}, id), NewTokens().of("alice", key, id),
		tokens.trafficOf("alice", key, id)} {
		if tokens.fits(wrong, false, key, id) {
			t.Errorf("%q is a token", wrong)
		}
	}
	for text, want := range map[string]bool{token: true, tokens.trafficOf("alice", key, id): true,
		tokens.trafficOf("alice", key, other): false} {
		if tokens.fits(text, true, key, id) != want {
			t.Errorf("%q for ports: %t", text, !want)
		}
	}
	if err := dir.WriteFile(keyFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(dir); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("half a key: %v", err)
	}
}

// TestSignature: one operation, path, user and expiration, and one token.
func TestSignature(t *testing.T) {
	code := func(text string) []byte { sum := sha256.Sum256([]byte(text)); return sum[:] }
	for text, want := range map[string]bool{"a:read:user:token:9": true, "a:read:user:token": false,
		"b:read:user:token:9": false, "a:write:user:token:9": false, "a:read:root:token:9": false,
		"a:read:user:other:9": false} {
		s := newSignature(opRead, "a", "user", "9")
		if got := s.isBy("token", code(text)); got != want || s.isBy("token", nil) {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// BenchmarkSignature is one sandbox of a search for a signature without the sandbox's id.
func BenchmarkSignature(b *testing.B) {
	tokens, id, s := NewTokens(), sandbox.NewID(), newSignature(opRead, "a", "user", "")
	key := httpd.Identity{1}
	for b.Loop() {
		s.isBy(tokens.of("alice", key, id), key[:])
	}
}

// FuzzASCII: the JSON of any text is ASCII, and means the same.
func FuzzASCII(f *testing.F) {
	f.Add("hé€😀\u2028\"")
	f.Fuzz(func(t *testing.T, text string) {
		want, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var a, b string
		var got bytes.Buffer
		out := &asciiWriter{to: &got}
		for i := range want { // in any pieces
			if _, err := out.Write(want[i : i+1]); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range got.Bytes() {
			if c >= 0x80 {
				t.Errorf("%q", got.Bytes())
			}
		}
		if json.Unmarshal(want, &a) != nil || json.Unmarshal(got.Bytes(), &b) != nil || a != b {
			t.Errorf("%q, not %q", b, a)
		}
	})
}
