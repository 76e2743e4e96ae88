package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/console"
)

func connectionsCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "connections",
		Short:   "List connections: who watches them, their budget, and what they cannot see",
		Example: "  herald connections",
		RunE: func(c *cobra.Command, _ []string) error {
			return listing[console.Connection]{
				path: "/v1/connections", empty: "no process that watches answers",
				head: []string{"CONNECTION", "STATE", "BUDGET", "OPEN", "UNSETTLED", "HOLDS", "LAST REPLY", "OWNER"},
				row:  connectionRow,
			}.print(c, a)
		},
	}
	a.flags(cmd)
	return cmd
}

func connectionRow(x console.Connection) ([]string, tone) {
	state, t := "watching", plain
	switch {
	case x.Parked != "":
		state, t = "parked ("+x.Parked+") for "+ago(x.ParkedSince), bad
	case x.Blind:
		state, t = "blind: "+x.BlindWhy, bad
	case x.Owner == "":
		state, t = "waiting for its owner", warn
	case !x.ClosedUntil.IsZero():
		state, t = "told to wait until "+span(-time.Until(x.ClosedUntil)), warn
	case x.StoreTrouble || x.Unpublished > 0:
		state, t = fmt.Sprintf("%d events not stored yet", x.Unpublished), warn
	}
	return []string{x.Name, state, fmt.Sprintf("%d of %d", x.Calls, x.Share), fmt.Sprint(x.Open), fmt.Sprint(x.Unsettled),
		fmt.Sprint(x.Holds), ago(x.LastReply), firstOf(x.Owner, "nobody")}, t
}
