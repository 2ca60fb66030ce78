package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Fetch, list, push and remove images",
		Long: `Native and gvisor run code on images without Docker: run --image NAME fetches a missing one.
Docker and Podman have images too, and load those of Fumehood that they lack.`,
		Args: cobra.NoArgs,
	}
	var name string
	add := a.onImages(&cobra.Command{
		Use: "import FILE|DIR|docker:NAME|podman:NAME", Args: cobra.ExactArgs(1),
		Short: "Add an archive, an OCI layout, a root file system, or an image of an engine",
	}, func(ctx context.Context, s *image.Store, args []string) error {
		engine, ref, ok := strings.Cut(args[0], ":")
		if ok && (engine == "docker" || engine == "podman") {
			return a.importFrom(ctx, s, engine, ref, name)
		}
		i, err := s.Import(ctx, args[0], name, a.reportImage)
		return a.added(i, err)
	})
	var keep sizeValue
	prune := a.onImages(&cobra.Command{
		Use: "prune", Args: cobra.NoArgs,
		Short: "Remove the images that no sandbox uses, the least recently used first",
	}, func(_ context.Context, s *image.Store, _ []string) error { return a.pruneImages(s, int64(keep)) })
	prune.Flags().Var(&keep, "keep", "keep images of this size together (default 0)")
	add.Flags().StringVar(&name, "name", "", "`NAME` of the image (default that in an archive of docker save)")
	cmd.AddCommand(
		a.onImages(&cobra.Command{Use: "pull NAME", Short: "Fetch an image from its registry",
			Args: cobra.ExactArgs(1)},
			func(ctx context.Context, s *image.Store, args []string) error {
				i, err := s.Pull(ctx, args[0], a.reportImage)
				return a.added(i, err)
			}),
		add, prune,
		a.onImages(&cobra.Command{Use: "export NAME FILE", Short: "Write an image as an OCI archive",
			Args: cobra.ExactArgs(2)},
			func(ctx context.Context, s *image.Store, args []string) error {
				return s.Export(ctx, args[0], args[1])
			}),
		a.onImages(&cobra.Command{Use: "push NAME [AS]", Short: "Upload an image to a registry, under the name AS",
			Args: cobra.RangeArgs(1, 2)},
			func(ctx context.Context, s *image.Store, args []string) error { return a.pushImage(ctx, s, args) }),
		a.onImages(&cobra.Command{Use: "ls", Short: "List the images", Args: cobra.NoArgs},
			func(_ context.Context, s *image.Store, _ []string) error { return a.listImages(s) }),
		a.onImages(&cobra.Command{Use: "rm NAME...", Short: "Remove images that no sandbox uses",
			Args: cobra.MinimumNArgs(1)},
			func(_ context.Context, s *image.Store, args []string) error { return a.removeImages(s, args) }))
	return cmd
}

func (a *app) onImages(cmd *cobra.Command,
	do func(ctx context.Context, s *image.Store, args []string) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		options := a.backendOptions()
		if options.Images == "" {
			return invalid("image", "the images need a home", "set HOME")
		}
		s, err := options.OpenImages()
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	}
	return cmd
}

// imageSaver is a backend that writes its images as archives of docker save.
type imageSaver interface {
	SaveImage(ctx context.Context, name string, to io.Writer) error
}

// importFrom adds an image of a container engine on this host.
func (a *app) importFrom(ctx context.Context, s *image.Store, engine, ref, name string) error {
	backends, err := a.openBackends()
	if err != nil {
		return err
	}
	defer backends.Close()
	f, err := os.CreateTemp("", "fumehood-image-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for _, b := range backends.Backends {
		if saver, ok := b.(imageSaver); ok && b.Name() == engine {
			if err := saver.SaveImage(ctx, ref, f); err != nil {
				return err
			}
			i, err := s.Import(ctx, f.Name(), cmp.Or(name, ref), a.reportImage)
			return a.added(i, err)
		}
	}
	return unsupported("import", engine+" is not available here", "")
}

func (a *app) pruneImages(s *image.Store, keep int64) error {
	names, bytes, err := s.Prune(keep)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Removed []string `json:"removed"`
			Bytes   int64    `json:"bytes"`
		}{append([]string{}, names...), bytes})
	}
	for _, name := range names {
		fmt.Fprintln(a.Stdout, terminal.VisibleName(name))
	}
	a.note(terminal.Faint, "freed at most %s", sandbox.FormatBytes(bytes))
	return nil
}

// pushImage uploads an image and prints where it is.
func (a *app) pushImage(ctx context.Context, s *image.Store, args []string) error {
	to := args[len(args)-1]
	digest, err := s.Push(ctx, args[0], to, a.reportImage)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		}{to, digest})
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s\n", to, digest)
	return err
}

// reportImage prints a line of progress.
func (a *app) reportImage(line string) {
	if !a.quiet {
		fmt.Fprintln(a.Stderr, terminal.OneLine(line))
	}
}

// added prints an image that was added.
func (a *app) added(i image.Image, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(i)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s %s\n", terminal.VisibleName(i.Name), sandbox.FormatBytes(i.Bytes))
	return err
}

func (a *app) listImages(s *image.Store) error {
	list, err := s.List()
	if err != nil {
		return err
	}
	if a.json {
		for n := range list {
			if i, err := s.Find(list[n].Name); err == nil { // it may be removed meanwhile
				list[n] = i // with its configuration
			}
		}
		return a.printJSON(answer.List(list))
	}
	rows := [][]string{{"NAME", "DIGEST", "SIZE", "ADDED", "USED"}}
	for _, i := range list {
		rows = append(rows, []string{i.Name, i.Digest[len("sha256:"):][:digestWidth], sandbox.FormatBytes(i.Bytes),
			ago(i.AddedAt), ago(i.UsedAt)})
	}
	return a.printTable(rows)
}

func (a *app) removeImages(s *image.Store, names []string) error {
	for _, name := range names {
		if err := s.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
