package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	var open bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: stand-ins for Envoy, Slack, mail and a webhook, all in this process",
		Example: "  herald demo\n" +
			"  herald demo --for 5m --open\n" +
			"  herald demo --for 20s --json",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.For != 0 && o.For < demo.Shortest {
				return &app.UsageError{Err: fmt.Errorf("--for %s is too short: give %s or more, or 0 until interrupted", o.For, demo.Shortest)}
			}
			// A reader that goes away ends the demo, which then tidies up.
			signal.Ignore(syscall.SIGPIPE)
			o.Out, o.Version = c.OutOrStdout(), version
			if open {
				o.Page = openPage
			}
			return demo.Run(c.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.For, "for", time.Minute, "how long; 0: until interrupted")
	cmd.Flags().BoolVar(&open, "open", false, "open the operator page in a browser: the one that BROWSER names, or the system's own")
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print one line of JSON at the end and nothing else")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 0, "seed of the simulated people; 0: another one each time")
	return cmd
}

// openPage shows a page in a browser.
func openPage(ctx context.Context, url string) error {
	line := browser(runtime.GOOS, os.Getenv("BROWSER"))
	if err := exec.CommandContext(ctx, line[0], append(line[1:], url)...).Run(); err != nil {
		return fmt.Errorf("open the page with %s: %w; open it by hand, or name a program with BROWSER", line[0], err)
	}
	return nil
}

// browser is the command that opens an address.
func browser(system, wanted string) []string {
	switch {
	case wanted != "":
		return []string{wanted}
	case system == "darwin":
		return []string{"open"}
	case system == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return []string{"xdg-open"}
}
