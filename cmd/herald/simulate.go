package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func simulateCommand() *cobra.Command {
	a := &api{}
	var since string
	cmd := &cobra.Command{
		Use:   "simulate -c NEW",
		Short: "Say which notifications a new file would have sent over the stored history, and the difference",
		Long: "Runs the subscriptions of NEW and those of the running process over the stored events. Nothing is sent.\n" +
			"Sending is taken to succeed at once and silences do not hold, for both.\n" +
			"NEW also says which process to ask, unless --url does.",
		Example: "  herald simulate -c new.yaml\n  herald simulate -c new.yaml --since 72h --url http://127.0.0.1:9464",
		RunE: func(c *cobra.Command, _ []string) error {
			if a.file == "" {
				return &app.UsageError{Err: fmt.Errorf("give the new file with -c")}
			}
			client, err := a.client(c)
			if err != nil {
				return err
			}
			subs, err := app.Subscriptions(a.file)
			if err != nil {
				return err
			}
			var s console.Simulation
			q := console.SimulateRequest{Subscriptions: subs, Since: since}
			if err := client.Post(c.Context(), "/v1/simulate", q, &s); err != nil {
				return app.Refused(err)
			}
			if a.json {
				return printJSON(c, s)
			}
			return showSimulation(c, s)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&since, "since", "24h", "how far back: a duration or a time (RFC 3339)")
	return cmd
}

func showSimulation(c *cobra.Command, s console.Simulation) error {
	w := c.OutOrStdout()
	say(w, plain, "%d events since %s", s.Events, clock(s.Since))
	out := newTable(w, "SINK", "RUNNING", "NEW")
	names := slices.Collect(maps.Keys(s.New.BySink))
	for name := range s.Running.BySink {
		if _, ok := s.New.BySink[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		out.add(plain, name, fmt.Sprint(s.Running.BySink[name]), fmt.Sprint(s.New.BySink[name]))
	}
	out.add(faint, "all", fmt.Sprint(s.Running.Total), fmt.Sprint(s.New.Total))
	if err := out.flush(); err != nil {
		return err
	}
	say(w, plain, "%d told by both; + only by the new file, - only by the running one", s.Same)
	diff := newTable(w, "", "AT", "SINK", "SUBSCRIPTION", "WHAT", "SITUATION", "EVENT")
	for sign, list := range map[string][]console.Told{"+": s.Added, "-": s.Removed} {
		for _, t := range list {
			tn := good
			if sign == "-" {
				tn = bad
			}
			diff.add(tn, sign, clock(t.At), t.Sink, t.Subscription, t.Action, string(t.Situation), t.EventID)
		}
	}
	if diff.empty() {
		say(w, plain, "no difference")
		return nil
	}
	if s.Cut {
		say(w, warn, "only the first differences are shown")
	}
	return diff.flush()
}
