package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/volume"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// volumeFlags name the volumes of a sandbox.
type volumeFlags struct{ volumes, memory []string }

func (f *volumeFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.volumes, "volume", nil,
		"mount a volume or a folder: `NAME:PATH`, or NAME:PATH:ro (repeatable)")
	flags.StringArrayVar(&f.memory, "tmpfs", nil, "mount an empty file system in memory: `PATH:SIZE` (repeatable)")
}

// parse returns the volumes. A directory of the host begins with / or a dot.
func (f *volumeFlags) parse() (list []sandbox.Volume, err error) {
	for _, text := range f.volumes {
		v := sandbox.Volume{}
		parts := strings.Split(text, ":")
		if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
			v.ReadOnly = parts[2] == "ro"
			parts = parts[:2]
		}
		if len(parts) != 2 || parts[0] == "" || !strings.HasPrefix(parts[1], "/") {
			return nil, invalid("--volume",
				fmt.Sprintf("%.80q is not NAME:PATH or NAME:PATH:ro, with an absolute path", text),
				"--volume data:/data")
		}
		v.Path = parts[1]
		if parts[0][0] == '.' || filepath.IsAbs(parts[0]) {
			v.HostDir = parts[0]
		} else {
			v.Name = parts[0]
		}
		list = append(list, v)
	}
	for _, text := range f.memory {
		path, size, _ := strings.Cut(text, ":")
		v := sandbox.Volume{Path: path}
		if v.Bytes, err = sandbox.ParseBytes(size); err != nil || v.Bytes <= 0 {
			return nil, invalid("--tmpfs", fmt.Sprintf("%.80q is not PATH:SIZE", text), "--tmpfs /scratch:64MiB")
		}
		list = append(list, v)
	}
	return list, nil
}

// volumesOf adds volumes to the spec of a sandbox that this process makes. It may mount any directory of the user's.
func (a *app) volumesOf(f *volumeFlags, spec *sandbox.Spec) error {
	list, err := f.parse()
	if err != nil {
		return err
	}
	for _, v := range list {
		if v.HostDir == "" {
			spec.Volumes = append(spec.Volumes, v)
			continue
		}
		mode := ":rw"
		if v.ReadOnly {
			mode = ":ro"
		}
		m, err := a.host().Mount(v.HostDir + ":" + v.Path + mode)
		if err != nil {
			return err
		}
		spec.Mounts = append(spec.Mounts, m)
	}
	return nil
}

// volumeStore returns the store of volumes, by default that in the default state folder.
func (a *app) volumeStore() *volume.Store {
	v := &a.volumes
	if v.store != nil {
		return v.store
	}
	if dir := a.env().StateDir(); v.options.Dir == "" && dir != "" {
		v.options.Dir = volumesIn(dir)
	}
	v.options.RunDir, v.options.Lives = a.env().RunDir(), backend.HasBox
	v.store = volume.New(v.options)
	return v.store
}

// volumesIn returns the folder of volumes in a state folder.
func volumesIn(stateDir string) string { return filepath.Join(stateDir, "volumes") }

// serveVolumeFlags bound the volumes of requests to a server.
type serveVolumeFlags struct {
	most    int
	largest sizeValue
	dirs    []string
}

// Defaults of serve.
const (
	defaultVolumes   = 16
	defaultMaxVolume = 10 << 30
)

func (f *serveVolumeFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.most, "volumes-per-key", defaultVolumes,
		fmt.Sprintf("named volumes of one API key (default %d)", defaultVolumes))
	f.largest = defaultMaxVolume
	flags.Var(&f.largest, "max-volume", "largest named volume (default "+f.largest.String()+")")
	flags.StringArrayVar(&f.dirs, "allow-volume-dir", nil,
		"requests may mount `DIR` of this host; DIR:ro to read only (repeatable)")
}

// offerVolumes configures the volumes of a server.
func (a *app) offerVolumes(f *serveFlags, kept *state) error {
	offered := &f.living.volumes
	if offered.most < 1 {
		return sandbox.Invalidf("--volumes-per-key", "must be at least 1")
	}
	a.volumes.options = volume.Options{OwnerMost: offered.most, MaxBytes: int64(offered.largest)}
	if kept != nil {
		a.volumes.options.Dir = volumesIn(filepath.Dir(kept.logs))
	}
	if f.living.private && f.door.forUser() && len(offered.dirs) == 0 { // the client acts as this user
		f.config.Volumes.Dir = a.checkOwnDir
		return nil
	}
	var allowed []volumeDir
	for _, text := range offered.dirs {
		name, readOnly := strings.CutSuffix(text, ":ro")
		dir, err := a.host().Dir("--allow-volume-dir", name)
		if err == nil {
			err = a.checkOwnDir(dir, readOnly)
		}
		if err != nil {
			return err
		}
		allowed = append(allowed, volumeDir{dir, readOnly})
	}
	f.config.Volumes.Dir = func(dir string, readOnly bool) error { return checkOffered(allowed, dir, readOnly) }
	return nil
}

// volumeDir is a directory of the host that requests may mount, with all directories below it.
type volumeDir struct {
	path     string // without links
	readOnly bool
}

// checkOffered refuses a directory that is not in one of the allowed ones. The innermost of these decides whether
// requests may write to it. They may not if a read-only one is below it. A backend opens dir without following links.
func checkOffered(allowed []volumeDir, dir string, readOnly bool) error {
	var innermost volumeDir
	for _, a := range allowed {
		if hostfiles.Within(dir, a.path) && len(a.path) > len(innermost.path) {
			innermost = a
		}
	}
	if innermost.path == "" {
		return sandbox.Invalidf("volumes", "this server does not offer the directory %.200q", dir)
	}
	for _, a := range allowed {
		if !readOnly && a.readOnly && (a == innermost || hostfiles.Within(a.path, dir)) {
			return sandbox.Invalidf("volumes", "this server offers %.200q read-only", a.path)
		}
	}
	return nil
}

// checkOwnDir refuses a directory that code must not write to, and a path with links.
func (a *app) checkOwnDir(dir string, readOnly bool) error {
	mode := ":rw"
	if readOnly {
		mode = ":ro"
	}
	m, err := a.host().Mount(dir + ":/volume" + mode)
	if err != nil {
		return sandbox.Invalidf("volumes", "%s", textOf(err))
	}
	if m.Source != dir {
		return sandbox.Invalidf("volumes", "a part of %.200q is a link", dir)
	}
	return nil
}

func (a *app) newVolume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volume",
		Short: "Create, list and remove named volumes",
		Long: `A volume is storage that outlives sandboxes: run --volume NAME:PATH mounts it. One sandbox at a time
may write to it, any number may read it.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var stateDir string
	on := func(cmd *cobra.Command, do func(context.Context, *volume.Store, []string) error) *cobra.Command {
		cmd.Flags().StringVar(&stateDir, "state-dir", "",
			"`DIR` of a server's state (default /var/lib or ~/.local/state)")
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if stateDir != "" {
				dir, err := makeState(stateDir)
				if err != nil {
					return err
				}
				a.volumes.options.Dir = volumesIn(dir)
			}
			return do(cmd.Context(), a.volumeStore(), args)
		}
		return cmd
	}
	var request sandbox.VolumeRequest
	create := on(&cobra.Command{Use: "create NAME", Short: "Create a volume", Args: cobra.ExactArgs(1)},
		func(ctx context.Context, s *volume.Store, args []string) error {
			request.Name = args[0]
			v, err := s.Create(ctx, request)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer.NewVolume(v))
			}
			_, err = fmt.Fprintln(a.Stdout, v.Name)
			return err
		})
	size := (*sizeValue)(&request.Bytes)
	*size = volume.DefaultBytes
	create.Flags().Var(size, "size", "largest size, with the file system's own structures (default "+size.String()+")")
	create.Flags().Int64Var(&request.Inodes, "inodes", 0, "most files and folders (default one for each 16 KiB)")
	create.Flags().StringSliceVar(&request.AllowUnenforced, "allow-unenforced", nil,
		"create it without limit `NAME` (disk, inodes) where the host cannot enforce it (repeatable)")
	cmd.AddCommand(create,
		on(&cobra.Command{Use: "ls", Short: "List the volumes", Args: cobra.NoArgs},
			func(_ context.Context, s *volume.Store, _ []string) error { return a.listVolumes(s) }),
		on(&cobra.Command{Use: "rm NAME...", Short: "Remove volumes that no sandbox uses",
			Args: cobra.MinimumNArgs(1)},
			func(ctx context.Context, s *volume.Store, args []string) error {
				for _, name := range args {
					if err := s.Remove(ctx, "", name); err != nil {
						return err
					}
				}
				return nil
			}))
	return cmd
}

func (a *app) listVolumes(s *volume.Store) error {
	list, err := s.List("", nil)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answer.NewVolumes(list))
	}
	rows := [][]string{{"NAME", "SIZE", "USED", "BOUND BY", "CREATED", "SANDBOXES"}}
	for _, v := range list {
		used, by := "-", "nothing"
		if v.UsedBytes >= 0 {
			used = sandbox.FormatBytes(v.UsedBytes)
		}
		if v.Enforcer != "" {
			by = v.Enforcer
		}
		var users []string
		for _, u := range v.Users {
			text := string(u.Sandbox)
			if u.ReadOnly {
				text += " (ro)"
			}
			users = append(users, text)
		}
		rows = append(rows, []string{v.Name, sandbox.FormatBytes(v.Bytes), used, by, ago(v.Created),
			strings.Join(users, ", ")})
	}
	return a.printTable(rows)
}
