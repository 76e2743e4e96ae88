// Command envoysim serves a stand-in for the Envoy HTTP API, contract envoy@2026-10, for demos, tests and benchmarks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/heraldbridge/herald/internal/envoysim"
	"github.com/spf13/cobra"
)

// usageError marks what the caller can put right: exit code 2.
type usageError struct{ error }

type flags struct {
	listen    string
	scenario  string
	tokens    []string
	seed      uint64
	speed     float64
	purchases int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(os.Stdout).ExecuteContext(ctx)
	stop()
	var usage usageError
	switch {
	case err == nil:
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "envoysim:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "envoysim:", err)
		os.Exit(1)
	}
}

func command(out io.Writer) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "envoysim",
		Short: "Serve a stand-in for the Envoy HTTP API",
		Example: "  envoysim --token demo-token-0001 --speed 5\n" +
			"  envoysim --listen 127.0.0.1:8089 --scenario needs-support",
		Args:          func(c *cobra.Command, args []string) error { return asUsage(cobra.NoArgs(c, args)) },
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return run(c.Context(), out, f) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8088", "address to serve on")
	c.Flags().StringVar(&f.scenario, "scenario", "", "scenario file, or the name of one that comes along; empty: random agents")
	c.Flags().StringArrayVar(&f.tokens, "token", nil, "bearer token to accept, each with a user of its own; repeatable")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "what all chance comes from")
	c.Flags().Float64Var(&f.speed, "speed", 1, "how much faster simulated people are")
	c.Flags().IntVar(&f.purchases, "purchases", 0, "end each random agent after so many purchases; 0: never")
	return c
}

func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func run(ctx context.Context, out io.Writer, f flags) error {
	quirks := envoysim.DefaultQuirks()
	if f.scenario != "" {
		quirks = envoysim.Quirks{} // a scenario is played as it is written
	}
	sim, err := envoysim.New(envoysim.Options{Seed: f.seed, Speed: f.speed, Quirks: quirks})
	if err != nil {
		return usageError{err}
	}
	tokens, err := sim.Populate(envoysim.Cast{Tokens: f.tokens, Scenario: f.scenario, Purchases: f.purchases})
	if err != nil {
		return usageError{err}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(out, "serving http://%s/tools/{tool}\n", listener.Addr())
	for _, t := range tokens {
		fmt.Fprintf(out, "token %s\n", t)
	}
	return sim.Serve(ctx, listener)
}
