package main

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// boxFlags specify a sandbox.
type boxFlags struct {
	environmentFlags
	networkFlags
	volumeFlags
	backend   string
	unchecked sandbox.Spec // the fields that need nothing of this host

	// Paths of this host, for commands that make the sandbox in this process.
	workspace string
	mounts    []string
	root      string
}

func (f *boxFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	settings.AddLimits(flags, &f.unchecked.Limits)
	flags.StringVar(&f.backend, "backend", "",
		"`NAME`: native, gvisor, docker, podman or auto (default "+defaultBackend+")")
	f.environmentFlags.add(flags)
	flags.StringVar(&f.unchecked.Root.Image, "image", "",
		"image or template `REF` that is the root file system")
	f.networkFlags.add(cmd)
	f.volumeFlags.add(flags)
	allowFlag(cmd, &f.unchecked.AllowUnenforced, allowUsage)
	completions(cmd, "backend", "native", "gvisor", "docker", "podman", "auto")
}

func (f *boxFlags) addHost(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.workspace, "workspace", "", "use `DIR` of this host as /workspace, read-write")
	flags.StringArrayVarP(&f.mounts, "mount", "v", nil,
		"mount a host directory: `SRC:DST`, or SRC:DST:rw to write (repeatable)")
	flags.StringVar(&f.root, "root", "", "`DIR` with the root file system (default that of this host)")
	flags.StringSliceVar(&f.unchecked.Commands, "allow-command", nil,
		"the only programs that may run, `NAME` without a path (repeatable)")
	addFreedoms(flags, &f.unchecked.NestedFilters, &f.unchecked.Terminals)
}

// sandboxFlags are the flags of commands that run code in a fresh sandbox.
type sandboxFlags struct {
	boxFlags
	stdinFlags
	checkFlags
	neededFlags

	files       []string
	workdir     string
	out         string
	overwrite   bool
	strictFiles bool
	returns     []string
	dryRun      bool
	rm          bool
}

func (f *sandboxFlags) add(cmd *cobra.Command) {
	f.boxFlags.add(cmd)
	f.boxFlags.addHost(cmd)
	flags := cmd.Flags()
	f.stdinFlags.add(flags)
	f.checkFlags.add(cmd)
	f.neededFlags.add(cmd)
	flags.StringArrayVar(&f.files, "file", nil, "upload a file or folder, `SRC[:DST]`, DST in /workspace (repeatable)")
	flags.StringVarP(&f.workdir, "workdir", "w", "", "working directory in the sandbox, a `PATH` (default /workspace)")
	flags.StringVarP(&f.out, "out", "o", "", "write new and changed files to `DIR`; with --in, pictures")
	flags.BoolVar(&f.overwrite, "overwrite", false, "let --out, and --file in a --workspace, replace files")
	flags.StringArrayVar(&f.returns, "return", nil,
		"return files that match `GLOB` (repeatable; with --out default all)")
	flags.BoolVar(&f.strictFiles, "strict-files", false, "exit with 125 if a file was left out")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the plan and run nothing")
	flags.BoolVar(&f.rm, "rm", true, "remove the sandbox after the program; always on")
	_ = flags.MarkHidden("rm")
}

// addFreedoms adds the flags of features whose cost for the host no limit counts.
func addFreedoms(flags *pflag.FlagSet, nestedFilters, terminals *bool) {
	flags.BoolVar(nestedFilters, "nested-filters", false,
		"let the code install seccomp filters and Landlock rules")
	flags.BoolVar(terminals, "terminals", false, "let the code create terminals, which pexpect and tmux need")
}

// allowUsage is the usage of --allow-unenforced of run and serve.
const allowUsage = "run without limit `NAME` where the host cannot enforce it (repeatable)"

func allowFlag(cmd *cobra.Command, names *[]string, usage string) {
	cmd.Flags().StringSliceVar(names, "allow-unenforced", nil, usage)
	var known []string
	for _, name := range sandbox.Waivable {
		known = append(known, string(name))
	}
	completions(cmd, "allow-unenforced", known...)
}

func completions(cmd *cobra.Command, flag string, values ...string) {
	complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // no such flag: a defect of the caller
	}
}

// spec turns the flags into a sandbox.Spec.
func (a *app) spec(f *boxFlags) (spec sandbox.Spec, err error) {
	spec = f.unchecked
	if spec.Root.Image == "" { // an image runs on a container engine
		if err := settings.CheckCapacity(spec.Limits, cmp.Or(f.backend, defaultBackend)); err != nil {
			return spec, err
		}
	}
	if spec.Network, err = a.policy(&f.networkFlags); err != nil {
		return spec, err
	}
	if spec.Env, err = a.environment(&f.environmentFlags); err != nil {
		return spec, err
	}
	if f.workspace != "" {
		if spec.Workspace, err = a.host().Workspace(f.workspace); err != nil {
			return spec, err
		}
	}
	if f.root != "" {
		if spec.Root.Dir, err = a.host().Dir("--root", f.root); err != nil {
			return spec, err
		}
	}
	if err := a.volumesOf(&f.volumeFlags, &spec); err != nil {
		return spec, err
	}
	for _, text := range f.mounts {
		m, err := a.host().Mount(text)
		if err != nil {
			return spec, err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	return spec, nil
}
