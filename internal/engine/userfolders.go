package engine

import (
	"context"
	"fmt"
	"path"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// programFolders are the folders of programs in a root, in the order of the default PATH.
var programFolders = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// makeUserFolders makes the folders in which installers put modules for the interpreters of the root, in a sandbox with
// a network.
func (s *Sandbox) makeUserFolders(ctx context.Context) error {
	if !s.spec().Network.Linked() || s.spec().Root.Writable {
		return nil
	}
	languages := s.engine.baseRules().Languages.All
	return s.call(ctx, func(c *client.Client) error {
		for i := range languages {
			l := &languages[i]
			if l.UserFolder == nil {
				continue
			}
			folder := l.UserFolder(interpreterFile(ctx, c, l.Programs[0]))
			if folder == "" {
				continue
			}
			m := guest.MakeDir{Path: path.Join(sandbox.Home, folder), Parents: true}
			if err := c.MakeDir(ctx, m); err != nil {
				return fmt.Errorf("make the folder of modules: %w", err)
			}
		}
		return nil
	})
}

// interpreterFile returns the name of the file that a program of the root is a link to, or "".
func interpreterFile(ctx context.Context, c *client.Client, program string) string {
	for _, folder := range programFolders {
		info, err := c.Stat(ctx, guest.Stat{Path: path.Join(folder, program)})
		if err == nil {
			return path.Base(info.Target)
		}
	}
	return ""
}
