package e2bapi

import (
	"context"
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

// findHome notes the home folder of a new sandbox whose backend does not show the workspace at E2B's path.
func findHome(ctx context.Context, s *engine.Sandbox) error {
	_, err := s.Stat(ctx, sandbox.WorkspaceAlias)
	if sandbox.KindOf(err) != sandbox.NotFound {
		return err
	}
	metadata := s.Info().Spec.Metadata
	metadata[homeName] = sandbox.Workspace
	return s.Update(engine.Patch{Metadata: metadata})
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
