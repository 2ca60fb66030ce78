package engine

import (
	"context"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// addHints adds hints about files that were not returned.
func (c *collection) addHints(ctx context.Context) {
	r := c.result
	if n := len(r.Skipped) + r.SkippedMore; n > 0 {
		h := sandbox.HintSkipped{Count: n}
		for _, s := range r.Skipped[:min(len(r.Skipped), maxHinted)] {
			s.Path = diagnose.PlainName(s.Path)
			h.Files = append(h.Files, s)
		}
		c.hint(h)
	}
	if r.Status != sandbox.StatusSucceeded || c.failed {
		return
	}
	unmatched := sandbox.HintUnmatched{New: diagnose.PlainNames(c.other)}
	for i, pattern := range c.x.Request.Return.Globs {
		if hit, all := c.matcher.Hit(i); !hit && !all && len(unmatched.Patterns) < maxHinted {
			// one for all names no specific file
			unmatched.Patterns = append(unmatched.Patterns, head(pattern, diagnose.LongestName))
		}
	}
	if len(unmatched.Patterns) > 0 {
		c.hint(unmatched)
	}
	if len(r.Files)+len(r.Skipped) == 0 {
		if h := c.x.elsewhere(ctx); h.Count > 0 {
			c.hint(h)
		}
	}
}

// maxElsewhere limits the listing of places whose files are not returned.
const maxElsewhere = 1000

// elsewhere finds files that the program made outside the workspace. Hidden ones are caches of libraries. Only runs
// without a file to return pay for it.
func (x *Run) elsewhere(ctx context.Context) sandbox.HintElsewhere {
	h := sandbox.HintElsewhere{}
	for _, place := range []string{"/tmp", sandbox.Home} {
		_, _ = x.sandbox.listDir(ctx, place, maxElsewhere, func(f guest.FileInfo) error {
			name := place + "/" + f.Path
			if f.Type != guest.FileRegular || strings.Contains(name, "/.") || name == x.CodePath {
				return nil
			}
			h.Count++
			if plain := diagnose.PlainName(name); plain != "" && len(h.Names) < maxHinted {
				h.Names = append(h.Names, plain)
			}
			return nil
		})
	}
	return h
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
