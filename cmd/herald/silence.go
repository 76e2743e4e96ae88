package main

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
	"github.com/heraldbridge/herald/internal/events"
)

func silenceCommand() *cobra.Command {
	return group("silence", "Postpone alarms for a while", silenceAddCommand(), silenceListCommand(), silenceRemoveCommand())
}

func silenceAddCommand() *cobra.Command {
	a := &api{}
	var q console.SilenceRequest
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "add --match CEL --for 2h --why TEXT",
		Short: "Postpone alarms about matching events; a plain webhook is never held back",
		Example: "  herald silence add --match 'connection == \"host-a\"' --for 2h --why 'host-a moves to new hardware'\n" +
			"  herald silence add --match 'merchant.name == \"Example Store\"' --for 24h --why 'the shop is down'",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			q.For = console.Duration(length)
			if q.By == "" {
				q.By = os.Getenv("USER")
			}
			var s events.Silence
			if err := client.Post(c.Context(), "/v1/silences", q, &s); err != nil {
				return app.Refused(err)
			}
			if a.json {
				return printJSON(c, s)
			}
			say(c.OutOrStdout(), plain, "%s until %s", s.ID, clock(s.Until))
			return nil
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&q.Match, "match", "", "CEL expression over the event")
	f.DurationVar(&length, "for", 0, "how long, 720h at the most")
	f.StringVar(&q.Why, "why", "", "the reason, for whoever wonders at the quiet")
	f.StringVar(&q.By, "by", "", "who asks for it (default $USER)")
	return cmd
}

func silenceListCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the silences in force, the next to end first",
		Example: "  herald silence list",
		RunE: func(c *cobra.Command, _ []string) error {
			return listing[events.Silence]{
				path: "/v1/silences", empty: "no silence is in force",
				head: []string{"ID", "ENDS", "BY", "MATCH", "WHY"},
				row: func(s events.Silence) ([]string, tone) {
					return []string{s.ID, span(-time.Until(s.Until)), s.By, s.Match, s.Why}, plain
				},
			}.print(c, a)
		},
	}
	a.flags(cmd)
	return cmd
}

func silenceRemoveCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "remove ID",
		Short:   "End a silence now; what it postponed is decided again at once",
		Example: "  herald silence remove sil-4k2m9q7xw3ba",
		Args:    exactly("the id of a silence"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			if err := client.Delete(c.Context(), "/v1/silences/"+url.PathEscape(args[0])); err != nil {
				return app.Refused(err)
			}
			fmt.Fprintln(c.OutOrStdout(), "removed")
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}
