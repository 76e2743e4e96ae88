package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func eventsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "events", Short: "Look at published events",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	cmd.AddCommand(tailCommand())
	return cmd
}

func tailCommand() *cobra.Command {
	var file, address, tokenFile, match, since string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show events as a running herald or notifier stores them",
		Example: "  herald events tail\n" +
			"  herald events tail --since 1h --match 'unsettled'\n" +
			"  herald events tail --json | jq .data.situation",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := apiClient(c, file, address, tokenFile)
			if err != nil {
				return err
			}
			for env, err := range client.Tail(c.Context(), match, since) {
				if err != nil {
					return app.Refused(err)
				}
				if asJSON {
					fmt.Fprintln(c.OutOrStdout(), string(env.Raw))
					continue
				}
				fmt.Fprintln(c.OutOrStdout(), env.Event.Time.Local().Format(time.DateTime), console.Line(env.Event))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file to take address and token from")
	f.StringVar(&address, "url", "", "address of the process (default http://127.0.0.1:9464)")
	f.StringVar(&tokenFile, "token-file", "", "file with the bearer token")
	f.StringVar(&match, "match", "", "CEL expression over the event")
	f.StringVar(&since, "since", "", "also stored events: a duration back (1h) or a time (RFC 3339)")
	f.BoolVar(&asJSON, "json", false, "print the events as JSON lines")
	return cmd
}

// apiClient finds the process to speak to: flags win over the configuration file.
func apiClient(c *cobra.Command, file, address, tokenFile string) (console.Client, error) {
	client := console.Client{URL: "http://127.0.0.1:9464", HTTP: &http.Client{}}
	if file != "" {
		found, err := app.Client(c.Context(), file)
		if err != nil {
			return client, err
		}
		client = found
	}
	if address != "" {
		client.URL = address
	}
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return client, &app.UsageError{Err: fmt.Errorf("read token: %w", err)}
		}
		client.Token = strings.TrimSuffix(string(b), "\n")
	}
	return client, nil
}
