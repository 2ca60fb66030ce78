//go:build manpages

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// With the tag manpages, this program writes the manual pages and the completions of the commands into a folder, for
// packages: go run -tags manpages ./cmd/fumehood DIR. The pages have the date SOURCE_DATE_EPOCH.
func main() {
	if err := writePages(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func writePages(dir string) error {
	cobra.EnableCommandSorting = false
	root := (&app{}).newRoot()
	asMarkdown(root)
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(epoch, 0).UTC()
	man := filepath.Join(dir, "man")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Fumehood", Date: &date}, man); err != nil {
		return err
	}
	for name, write := range map[string]func(string) error{
		"fumehood.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_fumehood":     root.GenZshCompletionFile,
		"fumehood.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := write(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// asMarkdown makes code blocks of the tables in the descriptions of all commands.
func asMarkdown(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, p := range paragraphs {
		if strings.Contains(p, "   ") {
			paragraphs[i] = "\t" + strings.ReplaceAll(p, "\n", "\n\t")
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, c := range cmd.Commands() {
		asMarkdown(c)
	}
}
