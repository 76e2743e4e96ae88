package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func deadReplayCommand() *cobra.Command {
	a := &api{}
	var q console.ReplayRequest
	cmd := &cobra.Command{
		Use:   "replay (EVENT | --sink SINK | --all)",
		Short: "Have dead letters sent again, by their sinks' owners, in order and with their own ids",
		Example: "  herald dead replay pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c-0-4-0\n" +
			"  herald dead replay --sink orders --dry-run\n" +
			"  herald dead replay --all --rate 2",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &app.UsageError{Err: fmt.Errorf("give one event at the most (see %s --help)", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				q.Event = args[0]
			}
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var report console.ReplayReport
			if err := client.Post(c.Context(), "/v1/dead/replay", q, &report); err != nil {
				return app.Refused(err)
			}
			if a.json {
				if err := printJSON(c, report); err != nil {
					return err
				}
			} else if err := showReplay(c, report); err != nil {
				return err
			}
			if !report.DryRun && report.Asked < len(report.Letters) {
				return errors.New("not every letter was taken")
			}
			return nil
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&q.Sink, "sink", "", "all letters of this sink; beside an event: only there")
	f.BoolVar(&q.All, "all", false, "all letters of all sinks")
	f.BoolVar(&q.DryRun, "dry-run", false, "only say which letters would be sent")
	f.Float64Var(&q.Rate, "rate", 10, "letters a second")
	return cmd
}

func showReplay(c *cobra.Command, r console.ReplayReport) error {
	out := newTable(c.OutOrStdout(), "EVENT", "SINK", "RESULT", "PROBLEM")
	for _, l := range r.Letters {
		status, t := string(l.Status), plain
		switch {
		case r.DryRun:
			status = "would be sent"
		case l.Problem != "":
			t = bad
		}
		out.add(t, l.EventID, l.Sink, status, l.Problem)
	}
	if err := out.flush(); err != nil {
		return err
	}
	say(c.OutOrStdout(), plain, "%d letters, %d taken, %d left for another replay", r.Matched, r.Asked, r.Left)
	return nil
}
