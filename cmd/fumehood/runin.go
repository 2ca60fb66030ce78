package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// inFlags choose the living sandbox of run.
type inFlags struct {
	serverFlags

	sandbox string
	context string
}

func (f *inFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.sandbox, "in", "", "run in the living sandbox of this `NAME` or id, where variables stay")
	flags.StringVar(&f.context, "context", "", "run in the context of this `NAME`, made if need be")
	f.serverFlags.add(flags)
}

// unused refuses flags that mean nothing without --in.
func (f *inFlags) unused(cmd *cobra.Command) error {
	if cmd.Flags().Changed("context") {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--context", Msg: "goes with --in: a fresh sandbox has no context",
			Fix: "--in NAME --context " + f.context}
	}
	return nil
}

// runIn runs code or a command in a living sandbox.
func (a *app) runIn(cmd *cobra.Command, in *inFlags, s source, f *sandboxFlags, args []string) error {
	if in.sandbox == "" {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--in", Msg: "needs the name of a sandbox", Fix: "fumehood ps lists them"}
	}
	if err := a.refuseForLiving(cmd, in.sandbox, s.isCommand); err != nil {
		return err
	}
	request, err := a.requestIn(cmd, s, f, args, in.context != "")
	if err != nil {
		return err
	}
	request.Context, request.Checks = in.context, sandbox.CheckMode(f.mode)
	var out *filesOut
	if f.out != "" {
		if out, err = a.openFilesOut(f.out, f.overwrite); err != nil {
			return err
		}
		defer out.close()
	}
	c, err := a.openClient(&in.serverFlags)
	if err != nil {
		return err
	}
	defer c.Close()
	if request.Code != nil && in.context != "" {
		if err := c.EnsureContext(cmd.Context(), in.sandbox, in.context, request.Language); err != nil {
			return err
		}
	}
	x := a.newAttached(c, in.sandbox, request, out, f.out)
	if err := x.run(cmd.Context(), f.takesStdin()); err != nil {
		out.unmake()
		return err
	}
	return x.finish(f.strictFiles)
}

// ofSandbox are the flags that are decided when a sandbox is created.
func ofSandbox() []string {
	flags := []string{"backend", "image", "network", "allow", "deny", "inspect", "secret", "allow-unenforced", "nested-filters", "terminals", "workspace", "mount",
		"root", "allow-command"}
	for _, l := range limitFlags {
		if l.name != sandbox.LimitTimeout {
			flags = append(flags, l.flag)
		}
	}
	return flags
}

// ofServer are the flags that are decided when a server starts.
func ofServer() []string {
	return append([]string{"check-allow", "check-deny", "container-image", "container-runtime"}, keptPackages...)
}

// refuseForLiving refuses flags that were decided when the sandbox was created. What the configuration says for all runs is no such
// request.
func (a *app) refuseForLiving(cmd *cobra.Command, name string, isCommand bool) error {
	named := func(flag string) bool { return cmd.Flags().Changed(flag) && !slices.Contains(a.configured, flag) }
	for _, flag := range ofSandbox() {
		if named(flag) {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--" + flag, Msg: "belongs to the sandbox " + name + ", which is there already",
				Fix: "leave it out, or make another sandbox: fumehood create --" + flag + " ..."}
		}
	}
	for _, flag := range ofServer() {
		if named(flag) {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--" + flag, Msg: "belongs to the server of " + name, Fix: "fumehood serve --" + flag + " ..."}
		}
	}
	for _, flag := range []string{"env", "env-file", "pass-env", "pass-secret"} {
		if named(flag) && !isCommand {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "--" + flag, Msg: "code in a living sandbox has the environment of its context",
				Fix: "set it in the code, or with fumehood create"}
		}
	}
	if named("workdir") {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "--workdir", Msg: "a living sandbox keeps its working directory",
			Fix: "change it in the code, or: sh -c 'cd DIR && CMD'"}
	}
	if named("dry-run") {
		return sandbox.Invalidf("--dry-run", "goes with a sandbox of its own, not with --in")
	}
	return nil
}

// requestIn turns the command line of run into a request to a living sandbox.
func (a *app) requestIn(cmd *cobra.Command, s source, f *sandboxFlags, args []string, inContext bool) (r apiclient.Run, err error) {
	if err := f.stdinFlags.check(); err != nil {
		return r, err
	}
	run := engine.Run{Request: sandbox.Request{Language: s.language}}
	if err := a.readSource(cmd.Context(), s, &run, &f.stdinFlags, args); err != nil {
		return r, err
	}
	r.Command, r.Args, r.Language, r.ReturnFiles = run.Request.Command, run.Request.Args, run.Request.Language, f.returns
	if run.Request.Code != nil {
		code := string(run.Request.Code)
		r.Code = &code
		if r.Language == "" {
			r.Language = languageOfFile(run.Request.FileName)
		}
		if s.hasCode && s.language == "" && inContext {
			r.Language = "" // that of the context
		}
		if len(r.Args) > 0 && hasContexts(r.Language) {
			return r, &sandbox.Error{Kind: sandbox.Invalid, Op: "run", Msg: "code in a living sandbox takes no arguments",
				Fix: "set variables in it, or run a command: run --in NAME -- CMD ARG"}
		}
		if hasContexts(r.Language) && (f.takesStdin() || f.stdin != "none" && f.stdin != "") {
			return r, &sandbox.Error{Kind: sandbox.Invalid, Op: "--stdin", Msg: "code in a living sandbox has no input",
				Fix: "send it a file: --file data.txt"}
		}
	}
	if len(f.returns) > 0 && !a.json {
		return r, &sandbox.Error{Kind: sandbox.Invalid, Op: "--return", Msg: "the files of a living sandbox stay in it",
			Fix: "fumehood cp NAME:PATH LOCAL, or --json"}
	}
	if f.lock != "" {
		return r, &sandbox.Error{Kind: sandbox.Unsupported, Op: "--lock", Msg: "goes with a sandbox of its own, not with --in", Fix: "--packages NAME==VERSION"}
	}
	if _, err := a.packages(&f.neededFlags, r.Command != nil); err != nil {
		return r, err
	}
	if !slices.Contains(f.names, packagesNone) {
		r.Packages, r.AllowBuild = f.names, f.allowBuild
	}
	r.Limits.TimeoutS = f.limits.Timeout.Seconds()
	return r, a.fillIn(cmd.Context(), &r, f)
}

// fillIn reads files, input and variables for a request.
func (a *app) fillIn(ctx context.Context, r *apiclient.Run, f *sandboxFlags) error {
	files, err := a.readFiles(f.files)
	if err != nil {
		return err
	}
	for _, file := range files {
		r.Files = append(r.Files, apiclient.File{Path: file.Path, Mode: fmt.Sprintf("%04o", file.Mode), ContentBase64: file.Data})
	}
	if r.Code != nil && hasContexts(r.Language) {
		return nil
	}
	variables, err := a.environment(&f.environmentFlags)
	if err != nil {
		return err
	}
	r.Env = byName(variables)
	if !f.takesStdin() || a.json {
		r.StdinBase64, err = a.programStdin(ctx, &f.stdinFlags)
	} else {
		r.Interactive = true
	}
	return err
}

// hasContexts reports whether code of a language runs in a context; else it is a process of its own, like a command. "" is that of a context.
func hasContexts(language string) bool {
	l, known := spokenAs(language)
	return !known || l.Driver != nil
}

// languageOfFile is the language of a file's extension, which is known.
func languageOfFile(name string) string {
	for _, l := range lang.All() {
		if slices.Contains(l.Extensions, strings.ToLower(filepath.Ext(name))) {
			return l.Name
		}
	}
	return ""
}
