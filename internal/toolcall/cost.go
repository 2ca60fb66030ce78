package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// The validator evaluates a schema without a bound: a schema that refers to itself overflows the stack, which ends the
// process, references that branch take exponential time, and each failure prints the value. So the work is estimated
// before, from the schema and from the sizes of the arguments at each depth.
const (
	maxWork        = 100e6 // bytes that one check of arguments may read or print, some 0.2 s
	maxRunWork     = 3e9   // of all calls of a run, some 5 s
	partWork       = 10e3  // of compiling a schema within a schema, some 20 µs
	maxParts       = 10000 // schemas within the schemas of all tools of a run: each takes some 20 µs to resolve
	compileWork    = 150   // and a byte of the text of a schema, which is decoded and encoded several times
	byteWork       = 15    // of decoding and encoding a byte of arguments
	decodedWork    = 500   // and a value
	valueWork      = 64    // of one evaluation, beside the bytes of the value
	weightBytes    = 64    // of a schema without its subschemas: each makes an evaluation as costly as another one
	stepWork       = 4     // of an instruction of a pattern, for a byte
	numberWork     = 500   // of comparing with a number, which the validator makes a fraction
	uniqueWork     = 2     // of comparing a byte of two items of an array
	maxPattern     = 1000  // bytes
	maxPatternSize = 10000 // instructions of all patterns of a schema
)

// work is how costly arguments are to check against a schema.
type work struct {
	perDepth [MaxDepth + 1]cost // of a value at a depth of the arguments, at most
	chain    float64            // evaluations of one value within each other, at most: each repeats the error
	parts    int                // schemas of the document
}

// cost is what a schema costs for a value: evaluations, the instructions of patterns, and uniqueItems.
type cost struct{ evaluations, instructions, uniques float64 }

func (c cost) plus(d cost) cost {
	return cost{c.evaluations + d.evaluations, c.instructions + d.instructions, c.uniques + d.uniques}
}

func (c cost) or(d cost) cost {
	return cost{max(c.evaluations, d.evaluations), max(c.instructions, d.instructions), max(c.uniques, d.uniques)}
}

// keyword is how a keyword of JSON Schema holds subschemas.
type keyword struct {
	inPlace bool // they apply to the value itself, not to a part of it
	several bool // it is a list or an object of subschemas
	oneOf   bool // of several, at most one applies to a part
}

var keywords = map[string]keyword{
	"allOf": {inPlace: true, several: true}, "anyOf": {inPlace: true, several: true},
	"oneOf": {inPlace: true, several: true}, "not": {inPlace: true}, "if": {inPlace: true}, "then": {inPlace: true},
	"else": {inPlace: true}, "dependentSchemas": {inPlace: true, several: true},
	"dependencies": {inPlace: true, several: true},
	"properties":   {several: true, oneOf: true}, "patternProperties": {several: true}, "additionalProperties": {},
	"propertyNames": {}, "unevaluatedProperties": {}, "items": {}, "prefixItems": {several: true, oneOf: true},
	"additionalItems": {}, "contains": {}, "unevaluatedItems": {}, "contentSchema": {},
	"$defs": {several: true}, "definitions": {several: true}, // only reached by references
}

// node is a schema.
type node struct {
	own     cost
	inPlace []*node   // that apply to the value itself
	parts   [][]*node // that apply to a part of it: one of each list

	state     int // of settle
	chain     float64
	now, next cost // for a part at a depth below the value
}

// graph is all schemas of a document, by their JSON pointers.
type graph struct {
	root     any
	nodes    map[string]*node
	settled  []*node // those in place before those that they are part of
	patterns int
}

// workOf estimates a schema in the form in which the validator encodes it. It refuses references by names, those that
// depend on the run of the validator, and those that lead back without a part in between.
func workOf(text []byte) (*work, error) {
	g := &graph{nodes: map[string]*node{}}
	if err := json.Unmarshal(text, &g.root); err != nil {
		return nil, err
	}
	root, err := g.node("")
	if err != nil {
		return nil, err
	}
	for _, n := range g.nodes {
		if err := g.settle(n); err != nil {
			return nil, err
		}
	}
	w := &work{chain: root.chain, parts: len(g.nodes)}
	for depth := range w.perDepth {
		for _, n := range g.settled {
			if n.next = n.own; depth > 0 {
				n.next = cost{}
			}
			for _, in := range n.inPlace {
				n.next = n.next.plus(in.next)
			}
			for _, group := range n.parts {
				var most cost
				for _, part := range group {
					most = most.or(part.now)
				}
				n.next = n.next.plus(most)
			}
		}
		for _, n := range g.settled {
			n.now = n.next
		}
		w.perDepth[depth] = root.now
	}
	return w, nil
}

// settle orders the schemas that apply in place, and refuses circles of them.
func (g *graph) settle(n *node) error {
	const begun, done = 1, 2
	switch n.state {
	case begun:
		return fmt.Errorf("refers to itself without a property or an item in between")
	case done:
		return nil
	}
	n.state = begun
	for _, in := range n.inPlace {
		if err := g.settle(in); err != nil {
			return err
		}
		n.chain = max(n.chain, in.chain)
	}
	n.chain++
	n.state = done
	g.settled = append(g.settled, n)
	return nil
}

// node returns the schema at a JSON pointer (RFC 6901).
func (g *graph) node(pointer string) (*node, error) {
	if n := g.nodes[pointer]; n != nil {
		return n, nil
	}
	value, err := at(g.root, pointer)
	if err != nil {
		return nil, err
	}
	n := &node{own: cost{evaluations: 1}}
	g.nodes[pointer] = n
	schema, ok := value.(map[string]any)
	if !ok {
		return n, nil // true or false
	}
	own := 0
	for name, value := range schema {
		how, known := keywords[name]
		switch {
		case known:
			if err := g.add(n, how, pointer+"/"+name, value); err != nil {
				return nil, err
			}
		case name == "$ref":
			if err := g.refer(n, value); err != nil {
				return nil, err
			}
		case name == "$dynamicRef" || name == "$recursiveRef" || name == "$id" && pointer != "":
			return nil, fmt.Errorf("has %s, which is not supported", name)
		case name == "pattern":
			err = g.pattern(n, value)
		case name == "uniqueItems":
			n.own.uniques = 1
		}
		if name == "patternProperties" {
			err = g.patternNames(n, value)
		}
		if err != nil {
			return nil, err
		}
		if !known {
			text, _ := json.Marshal(value) // it was decoded from JSON
			own += len(text)
			if name != "default" && name != "examples" {
				own += numbers(value) * numberWork
			}
		} else if several, ok := value.(map[string]any); ok && how.several {
			own += len(several) * valueWork
		}
	}
	n.own.evaluations += float64(own / weightBytes)
	return n, nil
}

// numbers counts the numbers of a value.
func numbers(value any) (n int) {
	switch value := value.(type) {
	case float64:
		return 1
	case []any:
		for _, v := range value {
			n += numbers(v)
		}
	case map[string]any:
		for _, v := range value {
			n += numbers(v)
		}
	}
	return n
}

// add adds the subschemas of a keyword.
func (g *graph) add(n *node, how keyword, pointer string, value any) error {
	pointers := []string{pointer}
	switch value := value.(type) {
	case []any:
		pointers = nil
		how.oneOf = how.oneOf || !how.inPlace // the older form of prefixItems
		for i := range value {
			pointers = append(pointers, pointer+"/"+strconv.Itoa(i))
		}
	case map[string]any:
		if how.several {
			pointers = nil
			for name := range value {
				name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
				pointers = append(pointers, pointer+"/"+name)
			}
		}
	}
	var subs []*node
	for _, p := range pointers {
		sub, err := g.node(p)
		if err != nil {
			return err
		}
		subs = append(subs, sub)
	}
	switch {
	case strings.HasSuffix(pointer, "/$defs") || strings.HasSuffix(pointer, "/definitions"):
	case how.inPlace:
		n.inPlace = append(n.inPlace, subs...)
	case how.oneOf:
		n.parts = append(n.parts, subs)
	default:
		for _, sub := range subs {
			n.parts = append(n.parts, []*node{sub})
		}
	}
	return nil
}

// refer adds the schema that a reference names.
func (g *graph) refer(n *node, value any) error {
	text, _ := value.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	plain, err := url.PathUnescape(pointer)
	if !ok || err != nil || plain != "" && plain[0] != '/' {
		return fmt.Errorf("has the $ref %.60q; only paths such as #/$defs/name are supported", text)
	}
	to, err := g.node(plain)
	if err != nil {
		return err
	}
	n.inPlace = append(n.inPlace, to)
	return nil
}

// at returns the value at a JSON pointer.
func at(value any, pointer string) (any, error) {
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		known := false
		switch container := value.(type) {
		case map[string]any:
			value, known = container[name]
		case []any:
			i, err := strconv.Atoi(name)
			if known = err == nil && i >= 0 && i < len(container); known {
				value = container[i]
			}
		}
		if !known {
			return nil, fmt.Errorf("has no %.60q", pointer)
		}
	}
	return value, nil
}

// pattern adds the cost of a regular expression, and bounds the memory of its compiled form.
func (g *graph) pattern(n *node, value any) error {
	text, _ := value.(string)
	if len(text) > maxPattern {
		return fmt.Errorf("has a pattern of more than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	size := sizeOf(parsed)
	if g.patterns += size; g.patterns > maxPatternSize {
		return fmt.Errorf("has patterns of more than %d parts, with their repetitions", maxPatternSize)
	}
	n.own.instructions += float64(size)
	return nil
}

// patternNames adds the cost of the patterns of patternProperties.
func (g *graph) patternNames(n *node, value any) error {
	names, _ := value.(map[string]any)
	for name := range names {
		if err := g.pattern(n, name); err != nil {
			return err
		}
	}
	return nil
}

// sizeOf estimates the instructions of a compiled pattern.
func sizeOf(r *syntax.Regexp) int {
	size := 1 + len(r.Rune)
	for _, sub := range r.Sub {
		size += sizeOf(sub)
	}
	if r.Op == syntax.OpRepeat {
		size *= max(r.Min, r.Max, 1)
	}
	return min(size, maxPatternSize+1) // it cannot overflow
}

// load holds the sizes of arguments that decide the work of a check, by the number of brackets around them.
type load struct {
	bytes, values [MaxDepth + 2]float64

	// pairs of containers in one array, times their bytes. Hashes of two lists may be equal for any seed (the validator
	// writes no lengths of strings), and then uniqueItems compares all of them. Those of strings and numbers differ.
	pairs [MaxDepth + 2]float64
}

func loadOf(text []byte) *load {
	var l load
	var begin [MaxDepth + 2]int      // of the container that is open at a depth
	var inside [MaxDepth + 2]float64 // containers in it
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		l.bytes[depth]++
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			l.values[depth]++
			inside[depth]++
			depth++
			begin[depth], inside[depth] = i, 0
		case c == ']', c == '}':
			if c == ']' {
				l.pairs[depth-1] += inside[depth] * float64(i-begin[depth])
			}
			depth--
		case c == ',':
			l.values[depth]++
		}
	}
	return &l
}

// of estimates the work of checking arguments. measure has bounded their depth.
func (w *work) of(text []byte) (total float64, err error) {
	l := loadOf(text)
	inside := 0.0
	for depth, n := range slices.Backward(l.bytes[:MaxDepth+1]) {
		inside += n
		at := w.perDepth[depth]
		total += (inside*float64(depth+1)*w.chain + l.values[depth]*valueWork) * at.evaluations
		total += (n + l.bytes[depth+1]) * at.instructions * stepWork // bytes[depth+1]: names of properties
		total += l.pairs[depth] * at.uniques * uniqueWork
	}
	if total > maxWork {
		return 0, fmt.Errorf("are too large for the schema of the tool, or too deep")
	}
	return total, nil
}

var errWork = errors.New("take too much work to check, with those of the other calls of the run")

// spend takes work from that of the run.
func (s *Set) spend(work float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spent+work > maxRunWork {
		return errWork
	}
	s.spent += work
	return nil
}
