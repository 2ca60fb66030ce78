package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestParseSurvey(t *testing.T) {
	good := `{"version":"3.11.2","standard_library":true,"modules":[{"name":"numpy","version":"1.24"},{"name":"a","version":""}]}`
	found, err := parseSurvey([]byte(good + "\n"))
	if err != nil || found.Version != "3.11.2" || len(found.Modules) != 2 {
		t.Errorf("%+v, %v", found, err)
	}
	long, _ := json.Marshal(sandbox.LanguageSurvey{Modules: make([]sandbox.Module, maxModules+1)})
	for _, bad := range []string{
		"", "null", "null x", good + "{}", strings.Replace(good, "version", "secret", 1),
		strings.Replace(good, "3.11", "\xff", 1),
		strings.Replace(good, "numpy", `\u001b[31m`, 1),
		strings.Replace(good, "numpy", strings.Repeat("x", maxModuleName+1), 1),
		string(long), strings.Repeat(" ", maxSurvey) + good, strings.Replace(good, `"numpy"`, "1", 1),
	} {
		if found, err := parseSurvey([]byte(bad)); err == nil {
			t.Errorf("took %.80q as %+v", bad, found)
		}
	}
}

func FuzzParseSurvey(f *testing.F) {
	f.Add([]byte(`{"version":"1","standard_library":false,"modules":[{"name":"a","version":""}]}`))
	f.Add([]byte(`{"version":"1","modules":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := parseSurvey(text)
		if err != nil {
			return
		}
		again, _ := json.Marshal(found)
		if same, err := parseSurvey(again); err != nil || same.Version != found.Version ||
			len(same.Modules) != len(found.Modules) {
			t.Fatalf("%s: %v", again, err)
		}
	})
}
