package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/template"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// templateFlags are the flags of template build.
type templateFlags struct {
	networkFlags
	file    string
	steps   []template.Step
	args    []string
	start   string
	ready   string
	backend string
	limits  sandbox.Limits
	allow   []string
	noCache bool
}

func (a *app) newTemplate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Build images of a Dockerfile or of steps",
		Long: `A template is an image that Fumehood builds: run --image NAME uses it. Its commands run in
sandboxes, without a network unless you allow one. The command image lists and removes templates.`,
		Args: cobra.NoArgs,
	}
	var f templateFlags
	build := &cobra.Command{
		Use:   "build NAME [DIR]",
		Short: "Build an image from a Dockerfile, or from the steps of the flags",
		Long: `Build makes an image. DIR holds the files to copy, and the Dockerfile unless -f names another.

--from, --run, --pip, --copy, --env, --workdir and --user are steps, in their order, in place of a Dockerfile.`,
		Example: `  fumehood template build tools -f Dockerfile .
  fumehood template build bio --from python:3.12-slim --pip biopython --allow pypi.org,files.pythonhosted.org`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.buildTemplate(cmd.Context(), &f, args) },
	}
	f.addTo(build)
	a.containers.pull.add(build)
	cmd.AddCommand(build)
	return cmd
}

func (f *templateFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "Dockerfile, a `FILE` (default DIR/Dockerfile)")
	f.step(flags, "from", "`IMAGE` to begin with", func(s *template.Step, v string) { s.From = v })
	f.step(flags, "run", "run `COMMAND` by /bin/sh (repeatable)", func(s *template.Step, v string) { s.Run = v })
	f.step(flags, "pip", "install Python packages, `NAMES` separated by blanks (repeatable)",
		func(s *template.Step, v string) { s.Pip = strings.Fields(v) })
	f.step(flags, "copy", "copy a file or folder, `SRC:DST`, DST absolute (repeatable)",
		func(s *template.Step, v string) { s.Copy = v })
	f.step(flags, "env", "set a variable, `NAME=VALUE` (repeatable)", func(s *template.Step, v string) { s.Env = v })
	f.step(flags, "workdir", "make `PATH` the working directory", func(s *template.Step, v string) { s.Workdir = v })
	f.step(flags, "user", "`USER` of later steps and of the image", func(s *template.Step, v string) { s.User = v })
	flags.StringArrayVar(&f.args, "build-arg", nil, "value of an ARG, `NAME=VALUE` (repeatable)")
	flags.StringVar(&f.start, "start", "", "`COMMAND` that every sandbox of the image starts with")
	flags.StringVar(&f.ready, "ready", "", "`CHECK` that it is ready: a port that answers, or a command that succeeds")
	flags.StringVar(&f.backend, "backend", "",
		"`NAME` of the backend that runs the steps (default gvisor, else native)")
	flags.BoolVar(&f.noCache, "no-cache", false, "repeat every step")
	f.networkFlags.add(cmd)
	settings.AddLimits(flags, &f.limits)
	allowFlag(cmd, &f.allow, allowUsage)
}

// stepFlag is a flag that appends a step. The order of all such flags is that of the steps.
type stepFlag struct {
	steps *[]template.Step
	set   func(*template.Step, string)
}

func (s stepFlag) String() string { return "" }
func (s stepFlag) Type() string   { return "string" }
func (s stepFlag) Set(value string) error {
	if value == "" {
		return errors.New("it is empty")
	}
	var step template.Step
	s.set(&step, value)
	*s.steps = append(*s.steps, step)
	return nil
}

func (f *templateFlags) step(flags *pflag.FlagSet, name, usage string, set func(*template.Step, string)) {
	flags.Var(stepFlag{&f.steps, set}, name, usage)
}

func (a *app) buildTemplate(ctx context.Context, f *templateFlags, args []string) (err error) {
	build := template.Build{Name: args[0], Context: ".", Steps: f.steps, Start: f.start, Ready: f.ready,
		Backend: f.backend, Limits: f.limits, AllowUnenforced: f.allow, NoCache: f.noCache,
		Report: a.reportBuild(), Args: map[string]string{}}
	if len(args) > 1 {
		build.Context = args[1]
	}
	for _, kv := range f.args {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return invalid("--build-arg", "is not NAME=VALUE", "--build-arg VERSION=1.2")
		}
		build.Args[name] = value
	}
	switch {
	case len(f.steps) == 0:
		if build.Dockerfile, err = readDockerfile(f.file, build.Context); err != nil {
			return err
		}
	case f.file != "":
		return invalid("-f", "excludes --"+nameOfStep(f.steps[0]), "name a Dockerfile or steps")
	}
	if err := settings.CheckCapacity(f.limits, build.Backend); err != nil {
		return err
	}
	if build.Network, err = a.policy(&f.networkFlags); err != nil {
		return err
	}
	options := a.backendOptions()
	if options.Images == "" {
		return invalid("template", "the images need a home", "set HOME")
	}
	store, err := options.OpenImages()
	if err != nil {
		return err
	}
	e, err := a.openEngine(engine.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	b := template.Builder{Images: store, Run: e.Run, Backends: e.backends.Backends, Probe: e.ProbeOf,
		Refresh: options.RefreshImages}
	if options.FetchImages {
		b.Fetch = e.FetchFor
	}
	made, err := b.Build(ctx, build)
	var failed *template.Failed
	if errors.As(err, &failed) {
		a.reportEnd(&runEnd{result: failed.Result, hint: wording.CommandLine.Hint(failed.Result.Hints)})
	}
	return a.added(made, err)
}

// openTemplates returns the builder of a server whose operator allows requests to build templates, else nil. It fetches
// base images as runs do.
func (a *app) openTemplates(f *serveFlags, e *openedEngine) (*template.Builder, error) {
	options := a.backendOptions()
	if f.templates == 0 || options.Images == "" {
		return nil, nil
	}
	store, err := options.OpenImages()
	if err != nil {
		return nil, err
	}
	store.Space = int64(f.templates)
	b := &template.Builder{Images: store, Run: e.Run, Backends: e.backends.Backends, Probe: e.ProbeOf,
		Allowed: e.Offers, MaxWork: template.ServerWork, Max: func(owner string) sandbox.Limits {
			_, most, _ := e.LimitsOf(owner)
			return most
		}}
	if f.pull {
		b.Fetch = e.FetchFor
	}
	return b, nil
}

// nameOfStep returns the flag of a step.
func nameOfStep(s template.Step) string {
	if s.From != "" {
		return "from"
	}
	return "run and other steps"
}

// readDockerfile reads a Dockerfile, by default that of the folder; "-" is no file here.
func readDockerfile(file, dir string) ([]byte, error) {
	if file == "" {
		file = filepath.Join(dir, "Dockerfile")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "template", Err: err,
			Fix: "name the Dockerfile with -f, or steps with --from and --run"}
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, template.MaxDockerfile+1))
}

// reportBuild returns what prints the log of a build.
func (a *app) reportBuild() func(template.Event) {
	if a.quiet {
		return nil
	}
	out := terminal.Sanitize(a.Stderr)
	return func(e template.Event) {
		switch {
		case e.Text != "":
			fmt.Fprintf(a.Stderr, "[%d/%d] %s\n", e.Step, e.Steps, terminal.OneLine(e.Text))
		case e.Output != nil:
			_, _ = out.Write(e.Output)
		case e.Cached:
		case e.Duration > time.Second:
			fmt.Fprintf(a.Stderr, "[%d/%d] took %s\n", e.Step, e.Steps, e.Duration.Round(100*time.Millisecond))
		}
	}
}
