package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

func configCommand() *cobra.Command {
	var file string
	check := &cobra.Command{
		Use:   "check",
		Short: "Load everything, compile every expression and template, and say what is wrong",
		Example: "  herald config check -c herald.yaml\n" +
			"  herald config check -c herald.yaml && systemctl reload herald",
		RunE: func(c *cobra.Command, _ []string) error {
			report, err := app.Check(c.Context(), file)
			if err != nil {
				return err
			}
			for _, line := range report {
				fmt.Fprintln(c.OutOrStdout(), line)
			}
			return nil
		},
	}
	check.Flags().StringVarP(&file, "config", "c", "herald.yaml", "configuration file")
	schema := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of the configuration",
		Example: "  herald config schema > herald.schema.json",
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := config.Schema()
			if err != nil {
				return fmt.Errorf("build schema: %w", err)
			}
			_, err = c.OutOrStdout().Write(b)
			return err
		},
	}
	return group("config", "Check the configuration, or print its schema", check, schema)
}
