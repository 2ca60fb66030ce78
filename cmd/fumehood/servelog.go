package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// logFlags choose what a server logs, and where.
type logFlags struct {
	format string
	level  logLevel
	access string // file of the access log
}

const formatJSON = "json"

func (f *logFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "log-format", "text", "`FORMAT` of the log on stderr: text or json (default text)")
	f.level.level = slog.LevelWarn
	flags.Var(&f.level, "log-level", "debug, info with a line per request, warn or error (default warn)")
	flags.StringVar(&f.access, "access-log", "", "append a JSON line per request to this `FILE`; reopened on SIGHUP")
	completions(cmd, "log-format", "text", formatJSON)
	completions(cmd, "log-level", "debug", "info", "warn", "error")
}

func (f *logFlags) check() error {
	if f.format != "text" && f.format != formatJSON {
		return sandbox.Invalidf("--log-format", "%.40q is not text or json", f.format)
	}
	return nil
}

// logLevel is a level of the log as a flag.
type logLevel struct{ level slog.Level }

func (l *logLevel) Type() string { return "LEVEL" }
func (l *logLevel) String() string {
	return strings.ToLower(l.level.String())
}

func (l *logLevel) Set(text string) error {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if one := (logLevel{level}); one.String() == text {
			*l = one
			return nil
		}
	}
	return sandbox.Invalidf("log-level", "%.40q is not one of debug, info, warn, error", text)
}

// serveLog is the log of a server.
type serveLog struct {
	level  slog.LevelVar
	logger *slog.Logger
	notes  *slog.Logger // without a level
	json   bool         // notes and errors are records, too
	access *reopened    // nil without a file
}

// startLog replaces the log of the command line by that of a server. --verbose and --quiet win over the level.
func (a *app) startLog(f *logFlags) (stop func() error, err error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	l := &serveLog{json: f.format == formatJSON}
	l.setLevel(a, f)
	options := &slog.HandlerOptions{Level: &l.level}
	if l.json {
		l.logger = slog.New(slog.NewJSONHandler(a.Stderr, options))
		l.notes = slog.New(slog.NewJSONHandler(a.Stderr, nil))
	} else {
		l.logger = slog.New(slog.NewTextHandler(a.Stderr, options))
	}
	if f.access != "" {
		path, err := a.host().Resolve(f.access)
		if err == nil {
			l.access = &reopened{path: path}
			err = l.access.reopen()
		}
		if err != nil {
			return nil, hostfiles.Error("--access-log", err)
		}
	}
	a.serveLog = l
	return func() error {
		if l.access == nil {
			return nil
		}
		return l.access.Close()
	}, nil
}

func (l *serveLog) setLevel(a *app, f *logFlags) {
	switch {
	case a.verbose:
		l.level.Set(slog.LevelDebug)
	case a.quiet:
		l.level.Set(slog.LevelError)
	default:
		l.level.Set(f.level.level)
	}
}

// accessLog returns the log of requests: a file, or the server's log.
func (l *serveLog) accessLog() *slog.Logger {
	if l.access == nil {
		return l.logger
	}
	return slog.New(slog.NewJSONHandler(l.access, nil))
}

// record logs a note of the command line as a record, if the log has the format JSON. Notes report the start, the end
// and reloads, so no level hides them.
func (l *serveLog) record(level slog.Level, text string, attrs ...any) (done bool) {
	if l == nil || !l.json {
		return false
	}
	l.notes.Log(context.Background(), level, text, attrs...)
	return true
}

// reopened is a file that grows, and that another program may move away before reopen. It is safe for concurrent use.
type reopened struct {
	path string

	mu   sync.Mutex // guards file
	file *os.File
}

// reopen opens the path again, and creates the file if it is missing, for its owner only.
func (r *reopened) reopen() error {
	f, err := hostfiles.OpenResolved(r.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.file
	if r.file = f; old != nil {
		return old.Close()
	}
	return nil
}

func (r *reopened) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Write(p)
}

func (r *reopened) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
