package terminal

import "testing"

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
