// Command herald is the whole product for one machine, and the operator's
// command line.
package main

//go:generate go test . -run ^TestReferenceIsCurrent$ -update

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(app.Execute(named(filepath.Base(os.Args[0])), os.Args[1:], os.Stderr)) }

// named is the command line of the name that the program is called by. A link called watcher or notifier makes it that
// program, so that an image holds the code once.
func named(name string) *cobra.Command {
	switch role := config.Role(name); role {
	case config.RoleWatcher, config.RoleNotifier:
		return app.RoleCommand(role, name, version)
	case config.RoleHerald:
	}
	return command()
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:     "herald",
		Short:   "Watch Envoy purchases and tell people and services when one changes",
		Version: version,
		Example: "  herald demo\n  herald config check -c herald.yaml\n  herald run -c herald.yaml\n  herald purchases list --unsettled",
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(
		runCommand(), demoCommand(), configCommand(),
		eventsCommand(), purchasesCommand(), deliveriesCommand(), explainCommand(), deadCommand(), silenceCommand(),
		sinksCommand(), connectionsCommand(), simulateCommand(), leakcheckCommand(), verifyReceiverCommand(), manCommand(),
	)
	return root
}
