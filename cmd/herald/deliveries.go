package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/events"
)

func deliveriesCommand() *cobra.Command {
	a := &api{}
	var sink, since, purchase string
	var failed bool
	var limit int
	cmd := &cobra.Command{
		Use:   "deliveries",
		Short: "List what became of events at sinks, the newest first",
		Example: "  herald deliveries --since 1h\n" +
			"  herald deliveries --sink orders --failed",
		RunE: func(c *cobra.Command, _ []string) error {
			q := url.Values{"sink": {sink}, "since": {since}, "purchase": {purchase}}
			if failed {
				q.Set("failed", "true")
			}
			return listing[events.Delivery]{
				path: "/v1/deliveries", query: q, limit: limit, empty: "no such delivery is recorded",
				head: []string{"AT", "SINK", "OUTCOME", "REASON", "TRY", "TOOK", "EVENT", "DETAIL"},
				row:  deliveryRow,
			}.print(c, a)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&sink, "sink", "", "only this sink")
	f.StringVar(&purchase, "purchase", "", "only this purchase")
	f.StringVar(&since, "since", "24h", "how far back: a duration or a time (RFC 3339)")
	f.BoolVar(&failed, "failed", false, "only failed tries and burials")
	f.IntVar(&limit, "limit", 100, "at the most; 0: all")
	return cmd
}

func deliveryRow(d events.Delivery) ([]string, tone) {
	t := plain
	switch d.Outcome {
	case "sent":
		t = good
	case "retried":
		t = warn
	case "buried":
		t = bad
	case "skipped", "superseded":
		t = faint
	}
	took := "-"
	if d.Millis > 0 {
		took = fmt.Sprintf("%d ms", d.Millis)
	}
	return []string{clock(d.At), d.Sink, d.Outcome, d.Reason, fmt.Sprint(d.Attempt), took, d.EventID, d.Detail}, t
}
