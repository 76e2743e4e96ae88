package main

import (
	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

func runCommand() *cobra.Command { return app.RoleCommand(config.RoleHerald, "run", version) }
