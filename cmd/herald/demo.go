package main

import (
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: stand-ins for Envoy, Slack, mail and a webhook, all in this process",
		Example: "  herald demo\n" +
			"  herald demo --for 20s --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.For != 0 && o.For < demo.Shortest {
				return &app.UsageError{Err: fmt.Errorf("--for %s is too short: give %s or more, or 0 until interrupted", o.For, demo.Shortest)}
			}
			// A reader that goes away ends the demo, which then tidies up.
			signal.Ignore(syscall.SIGPIPE)
			o.Out, o.Version = c.OutOrStdout(), version
			return demo.Run(c.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.For, "for", time.Minute, "how long; 0: until interrupted")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one line of JSON at the end and nothing else")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 0, "seed of the simulated people; 0: another one each time")
	return cmd
}
