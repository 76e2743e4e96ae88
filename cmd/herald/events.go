package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func eventsCommand() *cobra.Command {
	return group("events", "Look at published events", tailCommand())
}

func tailCommand() *cobra.Command {
	a := &api{}
	var match, since string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show events as a running herald or notifier stores them",
		Example: "  herald events tail\n" +
			"  herald events tail --since 1h --match 'unsettled'\n" +
			"  herald events tail --json | jq .data.situation",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			for env, err := range client.Tail(c.Context(), match, since) {
				if err != nil {
					return app.Refused(err)
				}
				if a.json {
					fmt.Fprintln(c.OutOrStdout(), string(env.Raw))
					continue
				}
				fmt.Fprintln(c.OutOrStdout(), env.Event.Time.Local().Format(time.DateTime), console.Line(env.Event))
			}
			return nil
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&match, "match", "", "CEL expression over the event")
	f.StringVar(&since, "since", "", "also stored events: a duration back (1h) or a time (RFC 3339)")
	return cmd
}
