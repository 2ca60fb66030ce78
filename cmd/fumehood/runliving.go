package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/engine"
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
	flags.StringVar(&f.sandbox, "in", "", "run in the living sandbox of this `NAME` or id, which keeps variables")
	flags.StringVar(&f.context, "context", "", "run in the context of this `NAME`, which is created if needed")
	f.serverFlags.add(flags)
}

func (a *app) runIn(cmd *cobra.Command, in *inFlags, s source, f *sandboxFlags, args []string) error {
	if in.sandbox == "" {
		return invalid("--in", "needs the name of a sandbox", "fumehood ps lists them")
	}
	if err := a.refuseForLiving(cmd, in.sandbox); err != nil {
		return err
	}
	request, err := a.requestIn(cmd, s, f, args, in.context != "")
	if err != nil {
		return err
	}
	request.Context, request.Checks = in.context, sandbox.CheckMode(f.mode)
	to, err := a.openDestination(f.out, f.overwrite)
	if err != nil {
		return err
	}
	defer to.close()
	to.strict = f.strictFiles
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
	x := a.newFollower(c, in.sandbox, request, to)
	if err := x.run(cmd.Context(), request.Interactive); err != nil {
		to.out.Undo()
		return err
	}
	return x.finish()
}

// flagsOfSandbox returns the flags that are fixed when a sandbox is created.
func flagsOfSandbox() []string {
	flags := append([]string{"workspace", "mount", "volume", "tmpfs"}, isolationFlags...)
	for _, l := range settings.LimitFlags {
		if l.Name != sandbox.LimitTimeout {
			flags = append(flags, l.Flag)
		}
	}
	return flags
}

// flagsOfServer returns the flags that are fixed when a server starts.
func flagsOfServer() []string {
	return slices.Concat([]string{"check-allow", "check-deny"}, containerFlags, keptPackages)
}

// named reports whether a flag is given, other than by the configuration, which is for all runs.
func (a *app) named(cmd *cobra.Command, flag string) bool {
	return cmd.Flags().Changed(flag) && !a.settings.Configured(flag)
}

// refuseForLiving refuses flags that were fixed when the sandbox was created or the server started. It accepts them in
// the configuration, which is for all runs.
func (a *app) refuseForLiving(cmd *cobra.Command, name string) error {
	named := func(flag string) bool { return a.named(cmd, flag) }
	for _, flag := range flagsOfSandbox() {
		if named(flag) {
			fix := "omit it"
			if a.newCreate().Flags().Lookup(flag) != nil {
				fix += ", or make another sandbox: fumehood create --" + flag + " ..."
			}
			return invalid("--"+flag, "cannot change the sandbox "+name+", which exists already", fix)
		}
	}
	for _, flag := range flagsOfServer() {
		if named(flag) {
			return invalid("--"+flag, "is a setting of the server of "+name, "fumehood serve --"+flag+" ...")
		}
	}
	if named("workdir") {
		return unsupported("--workdir", "a living sandbox keeps its working directory",
			"change it in the code, or: sh -c 'cd DIR && CMD'")
	}
	if named("dry-run") {
		return sandbox.Invalidf("--dry-run", "cannot be combined with --in")
	}
	return nil
}

func (a *app) requestIn(cmd *cobra.Command, s source, f *sandboxFlags, args []string,
	inContext bool) (r api.SandboxRunRequest, err error) {
	if err := f.stdinFlags.check(); err != nil {
		return r, err
	}
	run := engine.OneShot{Request: sandbox.Request{Language: s.language}}
	if err := a.readSource(cmd.Context(), s, &run, &f.stdinFlags, args); err != nil {
		return r, err
	}
	r.Command, r.Args, r.Language = run.Request.Command, run.Request.Args, run.Request.Language
	r.ReturnFiles = f.returns
	if run.Request.Code != nil {
		code := string(run.Request.Code)
		r.Code = &code
		if r.Language == "" {
			l, _ := languageOfFile(run.Request.FileName)
			r.Language = l.Name
		}
		if s.hasCode && s.language == "" && inContext {
			r.Language = "" // that of the context
		}
		if len(r.Args) > 0 && hasContexts(r.Language) {
			return r, invalid("run", "code in a living sandbox takes no arguments",
				"set variables in it, or run a command: run --in NAME -- CMD ARG")
		}
		if hasContexts(r.Language) && (f.takesStdin() || f.stdin != "none" && f.stdin != "") {
			return r, invalid("--stdin", "code in a living sandbox has no input", "upload a file: --file data.txt")
		}
	}
	if len(f.returns) > 0 && !a.json {
		return r, invalid("--return", "requires --json with --in", "fumehood cp NAME:PATH LOCAL, or --json")
	}
	if f.lock != "" {
		return r, unsupported("--lock", "cannot be combined with --in", "--packages NAME==VERSION")
	}
	if r.Interactive = f.takesStdin() && !a.json; r.Interactive {
		f.stdinFlags = stdinFlags{} // the follower sends it
	}
	if err := a.fillRequest(cmd.Context(), &run, f); err != nil {
		return r, err
	}
	fromConfiguration := r.Command != nil && a.settings.Configured("packages") // which is for code
	if !slices.Contains(f.names, packagesNone) && !fromConfiguration {
		r.Packages, r.AllowBuild = f.names, f.allowBuild
	}
	for _, file := range run.Request.Files {
		mode := fmt.Sprintf("%04o", file.Mode)
		r.Files = append(r.Files, api.File{Path: file.Path, Mode: mode, ContentBase64: answer.List(file.Data)})
	}
	r.StdinBase64, r.Limits.TimeoutS = run.Request.Stdin, secondsOf(f.unchecked.Limits.Timeout)
	if r.Code != nil && hasContexts(r.Language) && !slices.ContainsFunc(environmentNames, func(flag string) bool {
		return a.named(cmd, flag)
	}) {
		return r, nil
	}
	variables, err := a.environment(&f.environmentFlags)
	r.Env = byName(variables)
	return r, err
}
