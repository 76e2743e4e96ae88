package app

import (
	"context"
	"fmt"
	stdlog "log" //nolint:depguard // only to keep what net/http writes there
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/telemetry"
)

// RoleCommand is the command line of a role: load the file, run until asked to stop.
func RoleCommand(role config.Role, use, version string) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     use,
		Short:   shortFor(role),
		Version: version,
		Example: "  " + exampleFor(role) + " -c herald.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load(file, role)
			if err != nil {
				return err
			}
			log := telemetry.NewLogger(c.ErrOrStderr(), string(cfg.Log.Level), string(cfg.Log.Format))
			stdlog.SetOutput(telemetry.Strange(log))
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			return runAgain(c.Context(), Options{Config: cfg, File: file, Hangup: hangup, Role: role, Log: log, Version: version})
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "herald.yaml", "configuration file")
	return cmd
}

func shortFor(role config.Role) string {
	switch role {
	case config.RoleWatcher:
		return "Watch purchases and publish what changes (needs NATS and Redis)"
	case config.RoleNotifier:
		return "Deliver published events to sinks (needs NATS and Redis)"
	case config.RoleHerald:
	}
	return "Watch and deliver in one process; what the file does not place elsewhere is embedded"
}

func exampleFor(role config.Role) string {
	if role == config.RoleHerald {
		return "herald run"
	}
	return string(role)
}

// Client finds the process that a configuration file describes.
func Client(ctx context.Context, file string) (console.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return console.Client{}, &UsageError{fmt.Errorf("read configuration: %w", err)}
	}
	// Only the listener matters here, so references for other parts are not followed.
	cfg, err := config.Parse(file, text)
	if err != nil {
		return console.Client{}, err
	}
	c := console.Client{URL: "http://" + cfg.HTTP.Listen, HTTP: &http.Client{}}
	if cfg.HTTP.Token.IsZero() {
		return c, nil
	}
	token, err := cfg.HTTP.Token.Read(ctx)
	if err != nil {
		return c, fmt.Errorf("read http.token: %w", err)
	}
	c.Token = token.Reveal()
	return c, nil
}
