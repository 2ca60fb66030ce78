package httpapi

import (
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	for _, c := range []struct{ name, body, field, want string }{
		{"a misspelt field", `{"langauge":"python"}`, "", `unknown field "langauge"; did you mean language?`},
		{"another case", `{"Language":"python"}`, "", "did you mean language?"},
		{"another spelling", `{"return-files":[]}`, "", "did you mean return_files?"},
		{"a short form", `{"lang":"python"}`, "", "did you mean language?"},
		{"a field one level down", `{"timeout":5}`, "", "did you mean limits.timeout_s?"},
		{"a field in limits", `{"limits":{"memory_mb":5}}`, "limits", "did you mean memory_mib?"},
		{"a field that nothing is like", `{"callback_url":"http://127.0.0.1/"}`, "",
			`unknown field "callback_url"; the fields here are language`},
		{"a very long field", `{"` + strings.Repeat("€", 9999) + `":1}`, "", "..."},
		{"host mounts", `{"mounts":[]}`, "", "unknown field"},
		{"capabilities", `{"cap_add":["ALL"]}`, "", "unknown field"},
		{"a network by name", `{"network":"host"}`, "network", "expected an object, got a string"},
		{"a field twice", `{"code":"a","code":"b"}`, "", "the field code is there twice"},
		{"a field twice by an escape", `{"code":"a","\u0063ode":"b"}`, "", "twice"},
		{"a variable twice", `{"env":{"A":"1","A":"2"}}`, "env", "twice"},
		{"bytes after the value", `{"code":"a"} {}`, "", "bytes after the end"},
		{"an empty body", ``, "", "the body is empty"},
		{"white space only", " \n", "", "the body is empty"},
		{"a list", `[]`, "", "expected an object, got a list"},
		{"null", `null`, "", "expected an object, got null"},
		{"a byte order mark", "\ufeff{}", "", "byte order mark"},
		{"a body cut off", `{"code":"a`, "code", "not closed"},
		{"a body cut off later", `{"code":"a"`, "", "got the end of the body"},
		{"a comma too many", `{"code":"a",}`, "", "expected a field name"},
		{"single quotes", `{'code':'a'}`, "", "in double quotes"},
		{"deep nesting", `{"args":` + deep, "args[0]", "expected a string, got a list"},
		{"deep nesting elsewhere", deep, "", "expected an object"},
		{"a number for a string", `{"code":1}`, "code", "expected a string, got a number"},
		{"a string for a number", `{"limits":{"timeout_s":"5"}}`, "limits.timeout_s", "expected a number, got a string"},
		{"a field in a list", `{"files":[{"path":"a","content":"x"},{"path":1}]}`, "files[1].path", "expected a string"},
		{"a file without a path", `{"files":[{"content":"x"}]}`, "files[0]", "the field path is missing"},
		{"null in a list", `{"args":[null]}`, "args[0]", "got null"},
		{"null for a variable", `{"env":{"A":null}}`, "env.A", "got null"},
		{"bad UTF-8", "{\"code\":\"\xff\"}", "code", "not valid UTF-8"},
		{"half a surrogate pair", `{"code":"\ud800"}`, "code", "surrogate"},
		{"the wrong half", `{"code":"\udc00\ud800"}`, "code", "surrogate"},
		{"a NUL in a path", `{"files":[{"path":"a\u0000b","content":""}]}`, "files[0].path", "NUL"},
		{"a NUL in a name", `{"env":{"N\u0000":""}}`, "env", "NUL"},
		{"a raw newline", "{\"code\":\"a\nb\"}", "code", "control character"},
		{"bad base64", `{"files":[{"path":"a","content_base64":"a=b"}]}`, "files[0].content_base64", "not base64"},
		{"no JSON", `not json`, "", "something that is not JSON at byte 0"},
		{"part of a word", `tru`, "", "something that is not JSON at byte 0"},
		{"NaN", `{"limits":{"cpus":NaN}}`, "limits.cpus", "not JSON"},
		{"a number out of range", `{"limits":{"cpus":1e999}}`, "limits.cpus", "too large"},
		{"a number that JSON does not have", `{"limits":{"cpus":01}}`, "limits.cpus", "not a JSON number"},
		{"hexadecimal", `{"limits":{"cpus":0x10}}`, "limits", "expected a comma"},
		{"a mode as a number", `{"files":[{"path":"a","mode":420}]}`, "files[0].mode",
			`expected a string such as "0755", got a number`},
		{"a secret for nobody", `{"network":{"mode":"restricted","secrets":[{"name":"TOKEN"}]}}`, "network.secrets[0]",
			"the field hosts is missing"},
		{"an unknown escape", `{"code":"\x41"}`, "code", "escape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req api.RunRequest
			err := decode([]byte(c.body), &req)
			var e *sandbox.Error
			if !errors.As(err, &e) {
				t.Fatalf("decoded: %+v", req)
			}
			if e.Op != c.field || !strings.Contains(e.Msg, c.want) {
				t.Errorf("got %q at %q, want %q at %q", e.Msg, e.Op, c.want, c.field)
			}
			if len(e.Msg) > 1000 || !utf8.ValidString(e.Msg) {
				t.Errorf("a message of %d bytes", len(e.Msg))
			}
		})
	}
}

func TestDecodeBounds(t *testing.T) {
	args := strings.TrimSuffix(strings.Repeat(`"a",`, 4097), ",")
	var req api.RunRequest
	err := decode([]byte(`{"args":[`+args+`]}`), &req)
	if sandbox.KindOf(err) != sandbox.TooLarge {
		t.Errorf("4,097 arguments: %v", err)
	}
}

func TestDecodeTakes(t *testing.T) {
	body := ` { "language" : "python", "code": "print(\"\u20ac \ud83d\ude00\")\n", "args":["-x","a\/b"],
		"env":{"A":"1"}, "limits":{"timeout_s":1.5e1,"pids":null}, "stdin":"\u0000", "network":null,
		"files":[{"path":"a","content":""},{"path":"b","content_base64":"AP\/+"},{"path":"c","content":null,"content_base64":""}] } `
	var req api.RunRequest
	if err := decode([]byte(body), &req); err != nil {
		t.Fatal(err)
	}
	var want api.RunRequest // what encoding/json makes of the same
	if err := json.Unmarshal([]byte(body), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(req, want) {
		t.Errorf("got  %+v\nwant %+v", req, want)
	}
}

// encoding/json accepts each input that the decoder accepts, and decodes the same value.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"language":"python","code":"print(1)"}`, `{"code":"\ud83d\ude00\u0000"}`, `{"limits":{"timeout_s":1e3,"cpus":-0.5}}`,
		`{"files":[{"path":"a","content_base64":"AAA="}]}`, `{"env":{"A":"b","":""}}`, `{"include":["a"],"args":[]}`, `[[[[`, `{"code":"\`,
		`{"tools":[{"name":"a","schema": {"b":[1,"]}\"",{}]} },{"name":"b","schema":1 },{"name":"c","schema":[}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var req api.RunRequest
		err := decode(body, &req)
		if err != nil {
			if msg := err.Error(); !utf8.ValidString(msg) || len(msg) > 8<<10 && len(msg) > 2*len(body) {
				t.Fatalf("a bad message: %q", msg)
			}
			return
		}
		var want api.RunRequest
		if jsonErr := json.Unmarshal(body, &want); jsonErr != nil {
			t.Fatalf("took what is not JSON: %v: %q", jsonErr, body)
		}
		if !reflect.DeepEqual(req, want) {
			t.Fatalf("got %+v, encoding/json %+v, of %q", req, want, body)
		}
		runOf(&req) // must not panic
	})
}

// A problem quotes a hostile request briefly.
func TestDecodeIsBrief(t *testing.T) {
	name := strings.Repeat("\u0085", 1<<16)
	for _, body := range []string{
		`{"env":{"` + name + `":"","` + name + `":""}}`, `{"env":{"` + name + `":1}}`, `{"` + name + `":1}`,
	} {
		var req api.RunRequest
		if err := decode([]byte(body), &req); len(err.Error()) > 4<<10 {
			t.Errorf("%d bytes", len(err.Error()))
		}
	}
}

// A bound of a request that the engine checks too is the engine's.
func TestBoundsOfTheEngine(t *testing.T) {
	for field, want := range map[string]int{"ReturnFiles": plan.MaxGlobs, "Metadata": plan.MaxMetadata} {
		f, _ := reflect.TypeFor[api.Program]().FieldByName(field)
		if got := f.Tag.Get("max"); got != strconv.Itoa(want) {
			t.Errorf("%s: at most %s, the engine allows %d", field, got, want)
		}
	}
}
