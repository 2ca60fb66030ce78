package intercept

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPlaceholderForms: the placeholder of a known key passes the checks of client libraries, and has nothing of the
// key but its prefix, its length and the places of its separators.
func TestPlaceholderForms(t *testing.T) {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	jwt := part(`{"alg":"HS256"}`) + "." + part(`{"sub":"me","email":"me@example.com"}`) + "." +
		strings.Repeat("x9_", 14) + "x"
	for value, form := range map[string]string{
		"xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx":              `^xoxb-[0-9]{12}-[0-9]{13}-[A-Za-z0-9]{24}$`,
		"ghp_16C7e42F292c6912E7710c838347Ae178B4a":                              `^ghp_[A-Za-z0-9]{36}$`,
		"github_pat_11ABCDEFG0aBcDeFgHiJkL_" + strings.Repeat("a1B", 19) + "zz": `^github_pat_[A-Z0-9a-z]{22}_[A-Za-z0-9]{59}$`,
		"sk-proj-abcDEF123456_7890abcdefghij":                                   `^sk-proj-[A-Za-z0-9]{12}_[A-Za-z0-9]{14}$`,
		"sk-" + strings.Repeat("aB3", 16):                                       `^sk-[A-Za-z0-9]{48}$`,
		"sk-ant-api03-" + strings.Repeat("aB3-", 23) + "AA":                     `^sk-ant-api03-(?:[A-Za-z0-9]{3}-){23}[0-9A-F]{2}$`,
		"AKIAIOSFODNN7EXAMPLE":                                                  `^AKIA[A-Z2-7]{16}$`,
		"sk_live_4eC39HqLyjWDarjtT1zdp7dc":                                      `^sk_live_[A-Za-z0-9]{24}$`,
		"AIzaSyA-1234567890abcdefghijklmnopqrstu":                               `^AIza[A-Za-z0-9]{3}-[a-z0-9]{31}$`,
		"9f86d081884c7d659a2feaa0c55ad015":                                      `^[0-9a-f]{32}$`,
		"AC9f86d081884c7d659a2feaa0c55ad015":                                    `^AC[0-9a-f]{32}$`,
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8":                                  `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
		"correct-horse-battery-staple":                                          `^fumehood_placeholder_[0-9a-f]{32}$`,
		"sk-tooshort1":                                                          `^fumehood_placeholder_[0-9a-f]{32}$`,
		"xoxb-111111111111-1111":                                                `^fumehood_placeholder_[0-9a-f]{32}$`, // 53 random bits
		jwt:                                                                     `^eyJhbGciOiJIUzI1NiJ9\.[A-Za-z0-9_-]{50}\.[A-Za-z0-9_-]{43}$`,
	} {
		one, two := NewPlaceholder(value), NewPlaceholder(value)
		if !regexp.MustCompile(form).MatchString(one) || one == two || one == value {
			t.Errorf("%s: %s, %s", value, one, two)
		}
	}
	for _, size := range []int{11, 12, 30, 34, 35, 36, 200} {
		parts := strings.Split(NewPlaceholder("eyJhbGciOiJIUzI1NiJ9."+strings.Repeat("a", size)+
			"."+strings.Repeat("b", 43)), ".")
		text, err := base64.RawURLEncoding.DecodeString(parts[1])
		var claims map[string]any
		if err == nil {
			err = json.Unmarshal(text, &claims)
		}
		if err != nil || len(parts[1]) != size {
			t.Errorf("%d: %s: %q %v", size, parts[1], text, err)
		}
	}
}

// TestPlaceholderCost: a placeholder allocates nothing for each character of a long value. A number of math/big for
// each took two microseconds.
func TestPlaceholderCost(t *testing.T) {
	value := "sk-" + strings.Repeat("aB3", 2700)
	if allocations := testing.AllocsPerRun(10, func() { NewPlaceholder(value) }); allocations > 100 {
		t.Errorf("%v allocations for %d characters", allocations, len(value))
	}
}

// TestNamesOfAttempt: an attempt keeps few names of secrets, however many placeholders a request has.
func TestNamesOfAttempt(t *testing.T) {
	p := sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted}
	var values []string
	for i := range 4 * maxNames {
		placeholder := NewPlaceholder("")
		values = append(values, placeholder)
		p.Secrets = append(p.Secrets, sandbox.Secret{Name: "S" + strconv.Itoa(i), Hosts: []string{"api.test"},
			Value: userValue + strconv.Itoa(i), Placeholder: placeholder})
	}
	compiled, err := rules.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	if got := Misplaced(compiled.Secrets, values); len(got) != maxNames {
		t.Errorf("%d names, want %d", len(got), maxNames)
	}
}
