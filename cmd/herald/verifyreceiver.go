package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/secret"
)

func verifyReceiverCommand() *cobra.Command {
	var key string
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "verify-receiver URL --secret SECRET",
		Short: "Try a webhook receiver: good, repeated, out of order, forged and old deliveries",
		Long: "Speaks to the receiver itself, with marked test events about a purchase that does not exist.\n" +
			"SECRET is a reference (file:PATH, env:NAME) or the secret itself; a reference keeps it out of the list of processes.",
		Example: "  herald verify-receiver https://orders.example.com/hooks/envoy --secret file:/run/secrets/orders\n" +
			"  herald verify-receiver http://127.0.0.1:8080/hook --secret env:HOOK_SECRET --json",
		Args: exactly("the address of the receiver"),
		RunE: func(c *cobra.Command, args []string) error {
			value, err := readSecret(c.Context(), key)
			if err != nil {
				return err
			}
			checks, err := app.VerifyReceiver(c.Context(), app.ReceiverOptions{URL: args[0], Secret: value, Timeout: timeout})
			if err != nil {
				return err
			}
			return showChecks(c, checks, asJSON)
		},
	}
	f := cmd.Flags()
	f.StringVar(&key, "secret", "", "the receiver's signing secret, or a reference to it")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "longest time of one request")
	f.BoolVar(&asJSON, "json", false, "print JSON, one document a line")
	return cmd
}

// readSecret takes a reference or the text itself.
func readSecret(ctx context.Context, text string) (secret.Value, error) {
	for _, prefix := range []string{"file:", "env:", "command:"} {
		if !strings.HasPrefix(text, prefix) {
			continue
		}
		src, err := secret.ParseSource(text)
		if err != nil {
			return secret.Value{}, &app.UsageError{Err: fmt.Errorf("read secret: %w", err)}
		}
		value, err := src.Read(ctx)
		if err != nil {
			return value, &app.UsageError{Err: fmt.Errorf("read secret: %w", err)}
		}
		return value, nil
	}
	return secret.New(text), nil
}

func showChecks(c *cobra.Command, checks []app.ReceiverCheck, asJSON bool) error {
	out := newTable(c.OutOrStdout(), "CHECK", "WANTED", "STATUS", "RESULT", "MEANING")
	failed := 0
	for _, k := range checks {
		result, t := "ok", good
		if !k.OK {
			result, t = "WRONG", bad
			failed++
		}
		if asJSON {
			if err := printJSON(c, k); err != nil {
				return err
			}
			continue
		}
		out.add(t, k.Name, k.Want, fmt.Sprint(k.Status), result, k.Says)
	}
	if !asJSON {
		if err := out.flush(); err != nil {
			return err
		}
	}
	if failed > 0 {
		return errors.New(fmt.Sprint(failed) + " checks failed")
	}
	return nil
}
