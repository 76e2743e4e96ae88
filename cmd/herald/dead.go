package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func deadCommand() *cobra.Command {
	return group("dead", "Look at dead letters: events that a sink will not get by itself any more",
		deadListCommand(), deadShowCommand(), deadReplayCommand(), deadDropCommand())
}

func deadListCommand() *cobra.Command {
	a := &api{}
	var sink string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters, the newest first",
		Example: "  herald dead list\n  herald dead list --sink orders --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return listing[console.DeadView]{
				path: "/v1/dead", query: url.Values{"sink": {sink}}, limit: limit, empty: "no dead letter rests",
				head: []string{"EVENT", "SINK", "BURIED", "REASON", "TRIES", "SITUATION", "DETAIL"},
				row: func(d console.DeadView) ([]string, tone) {
					return []string{d.EventID, d.Sink, ago(d.Buried), d.Reason, fmt.Sprint(d.Attempts), string(d.Situation), d.Detail}, plain
				},
			}.print(c, a)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&sink, "sink", "", "only this sink")
	cmd.Flags().IntVar(&limit, "limit", 100, "at the most; 0: all")
	return cmd
}

func deadShowCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "show EVENT",
		Short:   "Show the dead letters of one event, with the event itself",
		Example: "  herald dead show pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c-0-4-0",
		Args:    exactly("the id of an event"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var page console.Page[console.DeadView]
			if err := client.Get(c.Context(), "/v1/dead/"+url.PathEscape(args[0]), nil, &page); err != nil {
				return app.Refused(err)
			}
			for _, d := range page.Items {
				if a.json {
					if err := printJSON(c, d); err != nil {
						return err
					}
					continue
				}
				w := c.OutOrStdout()
				say(w, warn, "%s at %s: %s after %d tries", d.EventID, d.Sink, d.Reason, d.Attempts)
				say(w, plain, "first tried %s, buried %s", clock(d.First), clock(d.Buried))
				say(w, plain, "%s", d.Detail)
				say(w, faint, "%s", firstOf(string(d.Event), string(d.Raw)))
			}
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}

func deadDropCommand() *cobra.Command {
	a := &api{}
	var sink string
	cmd := &cobra.Command{
		Use:     "drop EVENT --sink SINK",
		Short:   "Remove the dead letter of an event at a sink, for good",
		Example: "  herald dead drop pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c-0-4-0 --sink orders",
		Args:    exactly("the id of an event"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			if sink == "" {
				return &app.UsageError{Err: fmt.Errorf("say at which sink with --sink")}
			}
			if err := client.Delete(c.Context(), "/v1/dead/"+url.PathEscape(sink)+"/"+url.PathEscape(args[0])); err != nil {
				return app.Refused(err)
			}
			say(c.OutOrStdout(), plain, "dropped")
			return nil
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&sink, "sink", "", "the sink")
	return cmd
}
