package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

func leakcheckCommand() *cobra.Command {
	a := &api{}
	cmd := &cobra.Command{
		Use:   "leakcheck",
		Short: "Search streams, state and dead letters for card numbers and for the process's own secrets",
		Long: "The running process searches what it stores for card numbers and for every secret that its configuration\n" +
			"refers to. No secret leaves the process: findings name the place and the reference. Exit code 1 if one is found.",
		Example: "  herald leakcheck\n  herald leakcheck -c herald.yaml --json",
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client(c)
			if err != nil {
				return err
			}
			var r console.LeakReport
			if err := client.Post(c.Context(), "/v1/leakcheck", struct{}{}, &r); err != nil {
				return app.Refused(err)
			}
			if a.json {
				if err := printJSON(c, r); err != nil {
					return err
				}
			} else if err := showLeaks(c, r); err != nil {
				return err
			}
			if r.Total > 0 {
				return errors.New("something is stored that must not be")
			}
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}

func showLeaks(c *cobra.Command, r console.LeakReport) error {
	w := c.OutOrStdout()
	for _, store := range slices.Sorted(maps.Keys(r.Records)) {
		say(w, plain, "%s: %d records searched", store, r.Records[store])
	}
	say(w, plain, "for card numbers and %d secrets", r.Secrets)
	for _, name := range r.Unread {
		say(w, warn, "not searched for, since it cannot be read: %s", name)
	}
	if r.Total == 0 {
		say(w, good, "nothing found")
		return nil
	}
	out := newTable(w, "STORE", "PLACE", "SEQUENCE", "KIND", "SECRET")
	for _, f := range r.Findings {
		out.add(bad, f.Store, f.Place, fmt.Sprint(f.Sequence), f.Kind, firstOf(f.Name, "-"))
	}
	return out.flush()
}
