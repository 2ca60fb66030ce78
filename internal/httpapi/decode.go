package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// decode reads one JSON value into the struct that into points to. It is stricter than encoding/json, because a request
// understood in part would run something else than the caller meant. It refuses unknown and repeated names, null in
// lists, bytes after the value, text that is not UTF-8 (lone surrogates too) and numbers that do not fit, and names the
// field. Names match exactly. null means that the field was not sent.
//
// The Go type limits the depth of nesting.
func decode(data []byte, into any) error {
	d := &decoder{data: data}
	if len(data) >= 3 && string(data[:3]) == "\xef\xbb\xbf" {
		return sandbox.Invalidf("", "the body starts with a byte order mark; leave it out")
	}
	d.space()
	if d.pos == len(data) {
		return sandbox.Invalidf("", "the body is empty; send a JSON object")
	}
	if err := d.value(reflect.ValueOf(into).Elem(), ""); err != nil {
		return err
	}
	d.space()
	if d.pos != len(data) {
		return d.fail("there are bytes after the end of the JSON value, at byte %d", d.pos)
	}
	return nil
}

type decoder struct {
	data []byte
	pos  int
	path []string // of the value being read
}

func (d *decoder) fail(format string, args ...any) *sandbox.Error {
	return sandbox.Invalidf(strings.TrimPrefix(strings.Join(d.path, ""), "."), format, args...)
}

func (d *decoder) push(step string) { d.path = append(d.path, step) }
func (d *decoder) pop()             { d.path = d.path[:len(d.path)-1] }

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, or 0 at the end.
func (d *decoder) peek() byte {
	d.space()
	if d.pos == len(d.data) {
		return 0
	}
	return d.data[d.pos]
}

// kind names the JSON type that begins here, for messages.
func (d *decoder) kind() string {
	switch c := d.peek(); {
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a string"
	case d.word("true"), d.word("false"):
		return "true or false"
	case d.word("null"):
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	case c == 0 && d.pos == len(d.data):
		return "the end of the body"
	}
	return fmt.Sprintf("something that is not JSON at byte %d", d.pos)
}

// word reports whether the next bytes are exactly this word of JSON.
func (d *decoder) word(word string) bool {
	rest, ok := bytes.CutPrefix(d.data[d.pos:], []byte(word))
	return ok && (len(rest) == 0 || !isLetter(rest[0]))
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func (d *decoder) expect(want string) error {
	if got := d.kind(); got != want {
		return d.fail("expected %s, got %s", want, got)
	}
	return nil
}

func (d *decoder) value(v reflect.Value, tag reflect.StructTag) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem(), tag)
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			return d.time(at)
		}
		return d.object(v)
	case reflect.Map:
		return d.stringMap(v, tag)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			return d.raw(v)
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return d.base64(v)
		}
		return d.list(v, tag)
	case reflect.String:
		s, err := d.text(tag)
		v.SetString(s)
		return err
	case reflect.Bool:
		return d.boolean(v)
	case reflect.Float64:
		f, err := d.number()
		v.SetFloat(f)
		return err
	case reflect.Int, reflect.Int64:
		f, err := d.number()
		if err == nil && f != float64(int64(f)) {
			err = d.fail("must be a whole number")
		}
		v.SetInt(int64(f))
		return err
	}
	panic("httpapi: no JSON form for " + v.Type().String())
}

func (d *decoder) time(at *time.Time) error {
	s, err := d.str()
	if err != nil {
		return err
	}
	if *at, err = time.Parse(time.RFC3339, s); err != nil {
		return d.fail("is not a time such as 2030-01-02T15:04:05Z")
	}
	return nil
}

func (d *decoder) object(v reflect.Value) error {
	if err := d.expect("an object"); err != nil {
		return err
	}
	plan := planOf(v.Type())
	var seen uint64
	err := d.members(func(name string) error {
		i, ok := plan.index[name]
		if !ok {
			return d.unknown(name, plan)
		}
		if seen&(1<<i) != 0 {
			return d.fail("the field %s is there twice", name)
		}
		seen |= 1 << i
		f := plan.fields[i]
		d.push("." + name)
		defer d.pop()
		if d.space(); d.literal("null") {
			seen &^= 1 << i
			return nil
		}
		return d.value(v.FieldByIndex(f.Index), f.Tag)
	})
	if err != nil {
		return err
	}
	for i, f := range plan.fields {
		if seen&(1<<i) == 0 && f.Tag.Get("required") != "" {
			return d.fail("the field %s is missing", plan.names[i])
		}
	}
	return nil
}

func (d *decoder) unknown(name string, plan *structPlan) error {
	quoted := strconv.Quote(brief(name))
	if guess := nearest.Name(name, plan.known); guess != "" {
		return d.fail("unknown field %s; did you mean %s?", quoted, guess)
	}
	return d.fail("unknown field %s; the fields here are %s", quoted, strings.Join(plan.names, ", "))
}

// brief cuts a hostile name, which may be as long as a body, for an error.
func brief(name string) string {
	const longest = 64 // bytes
	if len(name) <= longest {
		return name
	}
	return strings.ToValidUTF8(name[:longest], "") + "..."
}

// members calls each for every member, positioned at its value.
func (d *decoder) members(each func(name string) error) error {
	d.pos++ // {
	if d.peek() == '}' {
		d.pos++
		return nil
	}
	for {
		if d.peek() != '"' {
			return d.fail("expected a field name in double quotes, got %s", d.kind())
		}
		name, err := d.str()
		if err != nil {
			return err
		}
		if d.peek() != ':' {
			return d.fail("expected a colon after a field name, got %s", d.kind())
		}
		d.pos++
		if err := each(name); err != nil {
			return err
		}
		switch d.peek() {
		case ',':
			d.pos++
		case '}':
			d.pos++
			return nil
		default:
			return d.fail("expected a comma or the end of the object, got %s", d.kind())
		}
	}
}

func (d *decoder) stringMap(v reflect.Value, tag reflect.StructTag) error {
	if err := d.expect("an object"); err != nil {
		return err
	}
	m := map[string]string{}
	err := d.members(func(name string) error {
		if err := d.bound(len(m), tag, "entries"); err != nil {
			return err
		}
		if _, ok := m[name]; ok {
			return d.fail("the name %s is there twice", strconv.Quote(brief(name)))
		}
		if strings.ContainsRune(name, 0) {
			return d.fail("a name holds a NUL character")
		}
		d.push("." + brief(name))
		defer d.pop()
		s, err := d.text(tag)
		m[name] = s
		return err
	})
	v.Set(reflect.ValueOf(m))
	return err
}

func (d *decoder) list(v reflect.Value, tag reflect.StructTag) error {
	if err := d.expect("a list"); err != nil {
		return err
	}
	d.pos++ // [
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	if d.peek() == ']' {
		d.pos++
		return nil
	}
	for {
		n := v.Len()
		if err := d.bound(n, tag, "entries"); err != nil {
			return err
		}
		v.Grow(1)
		v.SetLen(n + 1)
		v.Index(n).SetZero()
		d.push("[" + strconv.Itoa(n) + "]")
		if err := d.value(v.Index(n), tag); err != nil {
			return err
		}
		d.pop()
		switch d.peek() {
		case ',':
			d.pos++
		case ']':
			d.pos++
			return nil
		default:
			return d.fail("expected a comma or the end of the list, got %s", d.kind())
		}
	}
}

// bound refuses more entries than the tag "max" allows.
func (d *decoder) bound(n int, tag reflect.StructTag, what string) error {
	if most, err := strconv.Atoi(tag.Get("max")); err == nil && n >= most {
		e := d.fail("has more than %d %s", most, what)
		e.Kind = sandbox.TooLarge
		return e
	}
	return nil
}

func (d *decoder) boolean(v reflect.Value) error {
	d.space()
	switch {
	case d.literal("true"):
		v.SetBool(true)
	case d.literal("false"):
		v.SetBool(false)
	default:
		return d.fail("expected true or false, got %s", d.kind())
	}
	return nil
}

// literal skips a word of JSON, if it is next.
func (d *decoder) literal(word string) bool {
	if !d.word(word) {
		return false
	}
	d.pos += len(word)
	return true
}

func (d *decoder) number() (float64, error) {
	if err := d.expect("a number"); err != nil {
		return 0, err
	}
	start := d.pos
	for d.pos < len(d.data) && strings.IndexByte("0123456789+-.eE", d.data[d.pos]) >= 0 {
		d.pos++
	}
	text := string(d.data[start:d.pos])
	if !isNumber(text) {
		return 0, d.fail("is not a JSON number")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, d.fail("the number is too large")
	}
	return f, nil
}

// isNumber reports whether s follows the grammar of RFC 8259, section 6. strconv accepts more.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	rest := strings.TrimLeft(s, "0123456789")
	if whole := s[:len(s)-len(rest)]; whole == "" || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	if frac, ok := strings.CutPrefix(rest, "."); ok {
		rest = strings.TrimLeft(frac, "0123456789")
		if len(rest) == len(frac) {
			return false
		}
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	exp := rest[1:]
	if exp != "" && (exp[0] == '+' || exp[0] == '-') {
		exp = exp[1:]
	}
	return exp != "" && strings.Trim(exp, "0123456789") == ""
}

// text reads a string. It refuses NUL, which ends a name in every system call, unless the tag says nul:"ok".
func (d *decoder) text(tag reflect.StructTag) (string, error) {
	if form := tag.Get("form"); form != "" && d.peek() >= '0' && d.peek() <= '9' {
		return "", d.fail("expected a string such as %q, got a number", form)
	}
	if c := d.peek(); tag.Get("number") != "" && (c == '-' || c >= '0' && c <= '9') {
		f, err := d.number()
		return wholeNumber(f), err
	}
	s, err := d.str()
	if err == nil && tag.Get("nul") == "" && strings.IndexByte(s, 0) >= 0 {
		err = d.fail("holds a NUL character")
	}
	return s, err
}

// wholeNumber formats a JSON number, a whole one without a fraction.
func wholeNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func (d *decoder) base64(v reflect.Value) error {
	raw, escaped, err := d.rawString()
	if err != nil {
		return err
	}
	if escaped { // some encoders write a slash as "\/"
		s, err := d.unescape(raw)
		if err != nil {
			return err
		}
		raw = []byte(s)
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(raw)))
	n, err := base64.StdEncoding.Decode(out, raw)
	if err != nil {
		return d.fail("is not base64 (the standard alphabet, with padding)")
	}
	v.SetBytes(out[:n])
	return nil
}

func (d *decoder) str() (string, error) {
	raw, escaped, err := d.rawString()
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", d.fail("is not valid UTF-8; bytes that are not text go into a file's content_base64")
	}
	if escaped {
		return d.unescape(raw)
	}
	return string(raw), nil
}

// rawString returns the bytes between the quotes, and whether they hold escapes.
func (d *decoder) rawString() (raw []byte, escaped bool, err error) {
	if err := d.expect("a string"); err != nil {
		return nil, false, err
	}
	d.pos++
	start := d.pos
	for ; d.pos < len(d.data); d.pos++ {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			return d.data[start : d.pos-1], escaped, nil
		case c == '\\':
			escaped = true
			d.pos++
		case c < ' ':
			return nil, false, d.fail("a string holds a raw control character at byte %d; write it as an escape", d.pos)
		}
	}
	d.pos = len(d.data)
	return nil, false, d.fail("a string is not closed")
}
