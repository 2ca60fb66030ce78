package terminal

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestVisibleName: a name from a sandbox stays within its line.
func TestVisibleName(t *testing.T) {
	for name, want := range map[string]string{
		"a\nfumehood: succeeded": "a\uFFFDfumehood: succeeded", "tab\there": "tab\uFFFDhere", "\x1b[31m": "\uFFFD[31m",
		"a\u202egnp.exe": "a\uFFFDgnp.exe", "Gr\u00fc\u00dfe \u4f60.txt": "Gr\u00fc\u00dfe \u4f60.txt",
	} {
		if got := VisibleName(name); got != want {
			t.Errorf("%q is shown as %q, not %q", name, got, want)
		}
	}
}

// TestJSON: JSON of hostile text has no controls, and the same values.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"\u009b31m\x7f": `"\u009b31m\u007f"`, "a\u202eb\x1b[m": `"a\u202eb\u001b[m"`,
		"Gr\u00fc\u00dfe": "\"Gr\u00fc\u00dfe\"",
	} {
		var out bytes.Buffer
		var again string
		err := json.NewEncoder(JSON(&out)).Encode(text)
		if out.String() != want+"\n" || err != nil || json.Unmarshal(out.Bytes(), &again) != nil || again != text {
			t.Errorf("%q: %q, %v", text, &out, err)
		}
	}
}
