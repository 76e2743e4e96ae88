package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func sinksCommand() *cobra.Command {
	return group("sinks", "Look at sinks, and try one", sinksListCommand(), sinksTestCommand())
}

func sinksListCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List sinks: how they are, what waits for them and who delivers",
		Example: "  herald sinks list",
		RunE: func(c *cobra.Command, _ []string) error {
			return listing[console.Sink]{
				path: "/v1/sinks", empty: "no sink is known",
				head: []string{"SINK", "KIND", "STATE", "FOR", "BACKLOG", "IN HAND", "A MINUTE", "LAST SUCCESS", "NEXT PROBE", "OWNER", "FAILURE"},
				row:  sinkRow,
			}.print(c, a)
		},
	}
	a.flags(cmd)
	return cmd
}

func sinkRow(s console.Sink) ([]string, tone) {
	t := plain
	switch s.State {
	case "down", "paused", "gone":
		t = bad
	case "waiting", "unknown", "stopped":
		t = warn
	}
	probe, owner := "-", firstOf(s.Owner, "nobody")
	if !s.NextProbe.IsZero() {
		probe = span(-time.Until(s.NextProbe))
	}
	if !s.Configured {
		owner = "nobody: not in a running configuration"
	}
	return []string{s.Name, s.Kind, s.State, ago(s.Since), fmt.Sprint(s.Backlog), fmt.Sprint(s.InHand), fmt.Sprintf("%.3g", s.Rate), ago(s.LastSuccess), probe, owner,
		firstOf(s.StoreError, s.Failure)}, t
}

func sinksTestCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "test NAME",
		Short:   "Send a marked test notification through a sink",
		Example: "  herald sinks test ops-slack",
		Args:    exactly("the name of a sink"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var res console.WishResult
			if err := client.Post(c.Context(), "/v1/sinks/"+url.PathEscape(args[0])+"/test", struct{}{}, &res); err != nil {
				return app.Refused(err)
			}
			if a.json {
				if err := printJSON(c, res); err != nil {
					return err
				}
			} else {
				say(c.OutOrStdout(), plain, "%s %s", res.Status, firstOf(res.Problem, res.Detail))
			}
			if !res.OK() {
				return errors.New("the test notification was not accepted")
			}
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}
