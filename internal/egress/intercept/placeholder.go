package intercept

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"math"
	"regexp"
	"strings"
	"sync"
)

const (
	placeholderPrefix = "fumehood_placeholder_"
	placeholderRandom = 16 // bytes, in hexadecimal
	leastRandomBits   = 64 // of a placeholder in the form of its value
)

// NewPlaceholder returns the random text that a sandbox has in place of a value. For the form of a known key, which
// client libraries check, it has the same prefix, length and alphabet. Nothing else of the value is in it.
func NewPlaceholder(value string) string {
	if parts := strings.Split(value, "."); isJWT(parts) {
		payload := claims(base64.RawURLEncoding.DecodedLen(len(parts[1])))
		return parts[0] + "." + payload + "." + randomBase64(len(parts[2]))
	}
	head, tail := value[:min(len(value), formSize)], value[min(len(value), formSize):]
	for _, form := range forms() {
		if parts := form.FindStringSubmatch(head); parts != nil && strings.Trim(tail, keyCharacters) == "" {
			if text, bits := randomLike(parts[2] + tail); bits >= leastRandomBits {
				return parts[1] + text
			}
		}
	}
	var b [placeholderRandom]byte
	_, _ = rand.Read(b[:]) // it never fails
	return placeholderPrefix + hex.EncodeToString(b[:])
}

const (
	base64Characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // in URLs
	keyCharacters    = base64Characters + ".+/="
	// formSize bounds the bytes of a value that regular expressions read, at some 100 ns for each. Keys of a fixed
	// length are shorter.
	formSize = 128
)

// forms match the first formSize bytes of known keys: the prefix, which is the same in all keys of a kind, and the
// rest. Further bytes of a key are keyCharacters.
var forms = sync.OnceValue(func() (all []*regexp.Regexp) {
	const rest = `[A-Za-z0-9._+/=-]{16,}`
	for _, form := range [][2]string{
		{`xox[a-z]-|xapp-\d-`, rest}, // Slack
		{`gh[pousr]_|github_pat_`, rest},
		{`gl[a-z]{2,5}-`, rest}, // GitLab
		// Anthropic, OpenAI, others
		{`sk-ant-[a-z]+\d\d-|sk-(?:proj|svcacct|admin|or-v\d|lf)-|sk-|gsk_|xai-|pplx-`, rest},
		{`(?:sk|rk|pk)_(?:live|test)_|whsec_`, rest}, // Stripe
		{`A(?:KIA|SIA|IDA|ROA|CCA)`, `[A-Z0-9]{16}`}, // AWS key ids
		{`AIza|ya29\.|GOCSPX-|1//`, rest},            // Google
		{`hf_|r8_|npm_|pypi-|dapi|ntn_|secret_|lin_api_|figd_|glsa_|dop_v\d_|tfp_`, rest},
		{`shp[a-z]{2}_|sq0[a-z]{3}-|SG\.|key-|pat-|pat_|rnd_|re_|phc_|phx_|vercel_|sbp_|tvly-`, rest},
		{`AC|SK|`, `[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|[0-9A-F]{32}|[0-9A-F]{40}|[0-9A-F]{64}`}, // Twilio, others
		{``, `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`},
	} {
		all = append(all, regexp.MustCompile(`^(`+form[0]+`)(`+form[1]+`)$`))
	}
	return all
})

// isJWT reports whether parts between dots are those of a JSON Web Token (RFC 7519): header, claims and signature. The
// header names the algorithm.
func isJWT(parts []string) bool {
	return len(parts) == 3 && len(parts[0]) > len("eyJ") && strings.HasPrefix(parts[0], "eyJ") &&
		len(parts[1]) >= 11 && len(parts[2]) >= 22 && strings.Trim(strings.Join(parts, ""), base64Characters) == ""
}

// claims returns random claims in Base64 that do not expire soon, of so many bytes; at least 8.
func claims(size int) string {
	const before, short, after = `{"exp":4102444800,"jti":"`, `{"j":"`, `"}` // the year 2100
	begin := before
	if size < len(before)+len(after) {
		begin = short
	}
	fill, _ := randomLike(strings.Repeat("aA0", size)[:size-len(begin)-len(after)])
	return base64.RawURLEncoding.EncodeToString([]byte(begin + fill + after))
}

// randomBase64 returns random bytes in Base64, of so many characters.
func randomBase64(size int) string {
	b := make([]byte, base64.RawURLEncoding.DecodedLen(size))
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// alphabets of keys, the smallest first.
var alphabets = []string{"0123456789", "0123456789abcdef", "0123456789ABCDEF", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	"0123456789abcdefghijklmnopqrstuvwxyz", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"}

// randomLike returns a random text of the length of another, and how many bits are random. Letters and digits between
// two other characters are of one alphabet.
func randomLike(text string) (like string, bits float64) {
	random := bufio.NewReader(rand.Reader) // each read of rand.Reader takes some 200 ns
	var out strings.Builder
	for text != "" {
		end := strings.IndexFunc(text, func(c rune) bool { return !isLetter(c) })
		if end < 0 {
			end = len(text)
		}
		alphabet := alphabetOf(text[:end])
		for range end {
			out.WriteByte(alphabet[randomBelow(random, len(alphabet))])
		}
		bits += float64(end) * math.Log2(float64(len(alphabet)))
		if text = text[end:]; text != "" {
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String(), bits
}

// randomBelow returns a random number from 0 to n-1, for an n of at most 256.
func randomBelow(random io.ByteReader, n int) int {
	for {
		b, _ := random.ReadByte()               // it never fails
		if most := 256 - 256%n; int(b) < most { // else some numbers would be more likely
			return int(b) % n
		}
	}
}

func isLetter(c rune) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func alphabetOf(text string) string {
	for _, alphabet := range alphabets {
		if strings.Trim(text, alphabet) == "" {
			return alphabet
		}
	}
	return alphabets[len(alphabets)-1]
}
