package settings

import "testing"

func TestPatterns(t *testing.T) {
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"python:3.*", "python:3.12", true},
		{"python:3.*", "python:3.12" + digest, false},
		{"python:3.*", "python:3." + digest, false},
		{"python:*", "python:3.12" + digest, true},
		{"python*", "python" + digest, true},
		{"a.test:5000/*", "a.test:5000/x" + digest, true},
		{"python" + digest, "python" + digest, true},
		{"python:3.*@sha256:01*", "python:3.12" + digest, true},
	} {
		matches, err := Patterns("--allow-image", []string{c.pattern})
		if err != nil || matches(c.name) != c.want {
			t.Errorf("%s matches %s: %v, %v", c.pattern, c.name, !c.want, err)
		}
	}
}
