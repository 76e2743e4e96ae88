package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write man pages of all commands into a folder",
		Example: "  herald man /usr/local/share/man/man1",
		Args:    exactly("the folder to write to"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make folder: %w", err)
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the same pages for the same program
			header := &doc.GenManHeader{Title: "HERALD", Section: "1", Source: "Herald " + version, Manual: "Herald"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			return nil
		},
	}
}
