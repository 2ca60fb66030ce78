package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind classifies an error by the action that the caller can take. Each API maps it to its own codes.
type Kind uint8

// The kinds of errors. The zero Kind is Internal, so users never see the text of an unclassified error.
const (
	Internal     Kind = iota // a defect, or an unexpected failure of the host; the text is for the log
	Invalid                  // the request is wrong; fix it and send it again
	NotFound                 // no such sandbox, run, language, file
	Exists                   // the name is taken
	Busy                     // all slots and the queue are full; retry after RetryAfter
	Quota                    // more than this caller may have
	Unauthorized             // no key, or a wrong one
	Unsupported              // this host or backend cannot do it
	Unavailable              // it does not work now: starting, draining, the guest is gone
	TooLarge                 // a body, a file or a name is over its limit
)

var kindNames = [...]string{"internal", "invalid", "not_found", "exists", "busy", "quota", "unauthorized",
	"unsupported", "unavailable", "too_large"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

// MarshalText returns the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the name of a kind. An unknown name is Internal.
func (k *Kind) UnmarshalText(text []byte) error {
	*k = Kind(max(0, slices.Index(kindNames[:], string(text))))
	return nil
}

// Error is a failure of Fumehood. A failure of the program in the sandbox is a Status, never an Error.
type Error struct {
	Kind Kind
	Op   string // the step that failed, outermost part first: "native: mount /proc"
	Msg  string // what happened; may be empty if Err says it
	Fix  string // the fix, in one sentence that is true for every face; may be empty
	Err  error  // the cause; may be nil

	Fixes []Hint // other fixes, which each face words itself

	RetryAfter time.Duration // of a Busy error: when a slot is likely free; 0 is unknown
	Unenforced []LimitName   // limits that cannot be enforced here; the request passes if it waives all of them
}

func (e *Error) Error() string {
	s := e.Op
	for _, part := range []string{e.Msg, errText(e.Err)} {
		if part == "" {
			continue
		}
		if s != "" {
			s += ": "
		}
		s += part
	}
	fix := e.Fix
	for i, name := range e.Unenforced {
		switch {
		case i > 0:
			fix += ", "
		case fix != "":
			fix += "; or run without limits: "
		default:
			fix = "run without limits: "
		}
		fix += string(name)
	}
	if fix != "" {
		s += " (" + fix + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// first returns the first *Error in err's chain for which has is true, or a zero one.
func first(err error, has func(*Error) bool) *Error {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			break
		}
		if has(e) {
			return e
		}
		err = e.Err
	}
	return &Error{}
}

// KindOf returns the kind of the first *Error in err's chain, or Internal.
func KindOf(err error) Kind { return first(err, func(*Error) bool { return true }).Kind }

func hasFix(e *Error) bool { return e.Fix != "" || e.Fixes != nil }

// FixOf returns the Fix of the first error in err's chain that has any fix.
func FixOf(err error) string { return first(err, hasFix).Fix }

// FixesOf returns all fixes of the first error in err's chain that has any, then the waiver of UnenforcedOf.
func FixesOf(err error) []Hint {
	var all []Hint
	e := first(err, hasFix)
	if e.Fix != "" {
		all = append(all, FixText{e.Fix})
	}
	all = append(all, e.Fixes...)
	if limits := UnenforcedOf(err); len(limits) > 0 {
		all = append(all, FixWaive{limits})
	}
	return all
}

// RetryAfterOf returns the first RetryAfter in err's chain, or 0.
func RetryAfterOf(err error) time.Duration {
	return first(err, func(e *Error) bool { return e.RetryAfter != 0 }).RetryAfter
}

// UnenforcedOf returns the first Unenforced in err's chain, or nil.
func UnenforcedOf(err error) []LimitName {
	return first(err, func(e *Error) bool { return e.Unenforced != nil }).Unenforced
}

// Invalidf returns an Invalid error with a formatted message; field names the wrong part of the request.
func Invalidf(field, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Op: field, Msg: fmt.Sprintf(format, args...)}
}
