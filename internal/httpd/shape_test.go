package httpd

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// TestShape: the size of a shape is no less than what encoding/json takes for it.
func TestShape(t *testing.T) {
	for _, piece := range []string{`{"":0}`, `{"a":{}}`, `[]`, `{}`, `[[0]]`, `{"":[{"":[]}]}`, `0`, `true`, `""`,
		`"\\"`, `"\"{[,:"`, `[0,1,2]`, `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`} {
		const n = 2000
		text := []byte("[" + strings.Repeat(piece+",", n) + piece + "]")
		s := shapeOf(text)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(v)
		runtime.KeepAlive(text)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > s.size {
			t.Errorf("%s: %d bytes each are held, %d were expected", piece, held/n, s.size/n)
		}
		if got := s.values; got < n || got > 20*n {
			t.Errorf("%s: %d values", piece, got)
		}
	}
	if s := shapeOf([]byte(strings.Repeat(`{"a":[`, 60))); s.check() == nil || s.depth != 120 {
		t.Errorf("%+v", s)
	}
	if s := shapeOf([]byte(`"` + strings.Repeat(`[{,:`, 1<<20))); s.check() != nil || s.values != 1 {
		t.Errorf("a string without an end: %+v", s)
	}
}

// TestLiterals: a name and a number have a bound; a text of the same bytes has none.
func TestLiterals(t *testing.T) {
	long := strings.Repeat("1", maxLiteral+1)
	for text, ok := range map[string]bool{`{"a":"` + long + `","b":["` + long + `"]}`: true,
		`{"` + long + `":1}`: false,
		`{"a":` + long + `}`: false, `[1,` + long: false, long: false, `{"a":"","` + long + `"  :""}`: false} {
		if err := shapeOf([]byte(text)).checkLiterals(); (err == nil) != ok {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
