package e2bapi

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// homeName is the metadata with the home folder of a sandbox that has none at E2B's path.
const homeName = reserved + "home"

// homeOf returns the folder in which relative paths, commands and contexts of a sandbox begin.
func homeOf(s *engine.Sandbox) string {
	if home, ok := s.Info().Spec.Metadata[homeName]; ok {
		return home
	}
	return sandbox.WorkspaceAlias
}

// complete gives a sandbox what E2B's templates have.
func complete(ctx context.Context, s *engine.Sandbox) error {
	err := findHome(ctx, s)
	if err == nil {
		err = linkPython(ctx, s)
	}
	return err
}

// findHome notes the home folder of a new sandbox whose backend does not show the workspace at E2B's path.
func findHome(ctx context.Context, s *engine.Sandbox) error {
	_, err := s.Stat(ctx, sandbox.WorkspaceAlias)
	if sandbox.KindOf(err) != sandbox.NotFound {
		return err
	}
	metadata := s.Info().Spec.Metadata
	if metadata == nil { // another API made it
		metadata = map[string]string{}
	}
	metadata[homeName] = sandbox.Workspace
	return s.Update(engine.Patch{Metadata: metadata})
}

// linkPython gives a new sandbox the command python, as E2B's templates have it, if its root has only python3.
func linkPython(ctx context.Context, s *engine.Sandbox) error {
	for _, folder := range []string{"/usr/local/bin/", "/usr/bin/"} {
		if _, err := s.StatLink(ctx, folder+"python"); sandbox.KindOf(err) != sandbox.NotFound {
			return err
		}
		_, err := s.StatLink(ctx, folder+"python3")
		if sandbox.KindOf(err) == sandbox.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		link := sandbox.FileInfo{Path: "python", Type: sandbox.TypeSymlink, Target: folder + "python3"}
		_, _, err = s.UnpackFolder(ctx, sandbox.Home+"/.local/bin", func() (sandbox.FileInfo, io.Reader, error) {
			one := link
			link = sandbox.FileInfo{}
			if one.Path == "" {
				return one, nil, io.EOF
			}
			return one, nil, nil
		})
		return err
	}
	return nil
}

// pathIn returns the absolute path of a path that may be relative to the home folder.
func pathIn(s *engine.Sandbox, name string) string {
	if strings.HasPrefix(name, "/") {
		return path.Clean(name)
	}
	if name == "~" {
		name = ""
	}
	return path.Join(homeOf(s), strings.TrimPrefix(name, "~/"))
}
