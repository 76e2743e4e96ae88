package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func explainCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:     "explain ID",
		Short:   "Say why each event of a purchase did or did not reach each sink",
		Example: "  herald explain pur_0b1e9c7a3f2d5a8e9c0b1d2e3f4a5b6c",
		Args:    exactly("the id of a purchase"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var e console.Explanation
			if err := client.Get(c.Context(), "/v1/explain/"+url.PathEscape(args[0]), nil, &e); err != nil {
				return app.Refused(err)
			}
			if a.json {
				return printJSON(c, e)
			}
			out := newTable(c.OutOrStdout(), "STORED", "REV", "SITUATION", "SINK", "FATE", "SUBSCRIPTION", "WHY")
			for _, ev := range e.Events {
				for i, f := range ev.Sinks {
					cells := []string{clock(ev.Stored), fmt.Sprint(ev.Revision), string(ev.Situation)}
					if i > 0 {
						cells = []string{"", "", ""}
					}
					out.add(fateTone(f.Fate), append(cells, f.Sink, string(f.Fate), firstOf(f.Subscription, "-"), whyOf(f))...)
				}
			}
			return out.flush()
		},
	}
	a.flags(cmd)
	return cmd
}

func whyOf(f console.SinkFate) string {
	why := f.Why
	if !f.Until.IsZero() {
		why += "; next " + clock(f.Until)
	}
	return why
}

func fateTone(f console.Fate) tone {
	switch f {
	case console.FateDelivered:
		return good
	case console.FateBuried:
		return bad
	case console.FateRetrying, console.FateWaiting, console.FateSilenced, console.FatePending:
		return warn
	case console.FateNotMatched, console.FateBaseline, console.FateStill, console.FateSuperseded, console.FateTold,
		console.FateEnded, console.FateSettled:
		return faint
	}
	return plain
}
