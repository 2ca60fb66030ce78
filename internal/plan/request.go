package plan

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// checkRequest checks what does not depend on languages and backends.
func checkRequest(req *sandbox.Request) error {
	if err := checkSource(req); err != nil {
		return err
	}
	if req.Timeout < 0 {
		return sandbox.Invalidf("limits.timeout", "must be positive")
	}
	if len(req.Stdin) > MaxStdin {
		return tooLarge("stdin", len(req.Stdin), MaxStdin)
	}
	for i, word := range append(req.Command[:len(req.Command):len(req.Command)], req.Args...) {
		if strings.IndexByte(word, 0) >= 0 {
			return sandbox.Invalidf("command", "word %d holds a NUL byte", i)
		}
		if len(word) > MaxWord {
			return tooLarge(fmt.Sprintf("command: word %d", i), len(word), MaxWord)
		}
	}
	if err := checkVariables(req.Env); err != nil {
		return err
	}
	if err := checkReturn(&req.Return); err != nil {
		return err
	}
	return CheckMetadata(req.Metadata)
}

// CheckMetadata checks the metadata of a run or a sandbox.
func CheckMetadata(metadata map[string]string) error {
	if len(metadata) > MaxMetadata {
		return sandbox.Invalidf("metadata", "has more than %d entries", MaxMetadata)
	}
	for k, v := range metadata {
		if k == "" || len(k) > MaxMetadataName || len(v) > MaxMetadataValue {
			return sandbox.Invalidf("metadata", "%.40q: a name has 1 to %d bytes, a value at most %d", k,
				MaxMetadataName, MaxMetadataValue)
		}
	}
	return nil
}

// checkSource checks that there is exactly one thing to run, and that it is valid.
func checkSource(req *sandbox.Request) error {
	given := sources(req)
	switch {
	case len(given) == 0:
		return ErrNoSource()
	case len(given) > 1:
		return sandbox.Invalidf(given[0], "cannot be given together with %s", given[1])
	case req.Code != nil:
		return checkCode(req)
	case req.FileName != "":
		return sandbox.Invalidf("file name", "requires code")
	case req.Entry != "":
		return CheckPath("entry", req.Entry)
	case req.Command[0] == "":
		return sandbox.Invalidf("command", "the first word is empty")
	case req.Language != "" && !req.Packages.Named():
		return sandbox.Invalidf("language", "a command has no language, except that of its packages")
	case len(req.Args) > 0:
		return sandbox.Invalidf("args", "append them to the command")
	}
	return nil
}

// sources lists the things to run of a request.
func sources(req *sandbox.Request) (given []string) {
	if req.Code != nil {
		given = append(given, "code")
	}
	if req.Entry != "" {
		given = append(given, "entry")
	}
	if len(req.Command) > 0 {
		given = append(given, "command")
	}
	return given
}

// HasSource reports whether a request has code or a command.
func HasSource(req *sandbox.Request) bool { return len(sources(req)) > 0 }

// ErrNoSource returns the error for a request without code and command.
func ErrNoSource() error { return sandbox.Invalidf("code", "is missing; give code or a command") }

func checkCode(req *sandbox.Request) error {
	switch {
	case len(bytes.TrimSpace(req.Code)) == 0:
		return sandbox.Invalidf("code", "is empty")
	case len(req.Code) > MaxCode:
		return tooLarge("code", len(req.Code), MaxCode)
	}
	if bytes.HasPrefix(req.Code, []byte("\xff\xfe")) || bytes.HasPrefix(req.Code, []byte("\xfe\xff")) {
		err := sandbox.Invalidf("code", "is UTF-16, by its byte order mark")
		err.Fix = "save it as UTF-8"
		return err
	}
	if at := bytes.IndexByte(req.Code, 0); at >= 0 {
		return sandbox.Invalidf("code", "holds a NUL byte at offset %d", at)
	}
	if !utf8.Valid(req.Code) {
		return sandbox.Invalidf("code", "is not valid UTF-8: a bad byte at offset %d", badUTF8(req.Code))
	}
	if name := req.FileName; name != "" {
		if err := CheckPath("file name", name); err != nil {
			return err
		}
		if strings.Contains(name, "/") {
			return sandbox.Invalidf("file name", "%.80q has a folder", name)
		}
	}
	return nil
}

// badUTF8 returns the offset of the first byte that is not valid UTF-8.
func badUTF8(b []byte) int {
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// checkWords limits arguments and environment together, so that the start fits into a message and execve.
func checkWords(argv, env []string) error {
	total := 0
	for _, list := range [][]string{argv, env} {
		for _, word := range list {
			total += len(word) + 1
		}
	}
	if total > MaxWords {
		return tooLarge("arguments and environment together", total, MaxWords)
	}
	return nil
}

func checkReturn(r *sandbox.Return) error {
	switch {
	case r.MaxFiles < 0 || r.MaxFileBytes < 0 || r.MaxBytes < 0:
		return sandbox.Invalidf("return_files", "the limits must be positive")
	case r.MaxFiles > MaxReturnFiles:
		return sandbox.Invalidf("return_files", "at most %d files can be returned", MaxReturnFiles)
	case r.MaxFileBytes > MaxReturnBytes || r.MaxBytes > MaxReturnBytes:
		return sandbox.Invalidf("return_files", "at most %s can be returned", sandbox.FormatBytes(MaxReturnBytes))
	case len(r.Globs) > MaxGlobs:
		return sandbox.Invalidf("return_files", "has more than %d patterns", MaxGlobs)
	}
	if r.MaxFiles == 0 {
		r.MaxFiles = sandbox.DefaultReturnFiles
	}
	if r.MaxFileBytes == 0 {
		r.MaxFileBytes = sandbox.DefaultReturnFileBytes
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = sandbox.DefaultReturnBytes
	}
	return nil
}

func tooLarge(what string, size, most int) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: what,
		Msg: sandbox.FormatBytes(int64(size)) + " is over the limit of " + sandbox.FormatBytes(int64(most))}
}
