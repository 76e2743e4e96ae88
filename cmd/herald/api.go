package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/internal/app"
	"github.com/heraldbridge/herald/internal/console"
)

// api is the flags of every command that speaks to a running process.
type api struct {
	file, url, tokenFile string
	json                 bool
}

// flags adds them to a command.
func (a *api) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&a.file, "config", "c", "", "configuration file to take address and token from")
	f.StringVar(&a.url, "url", "", "address of the process (default http://127.0.0.1:9464)")
	f.StringVar(&a.tokenFile, "token-file", "", "file with the bearer token")
	f.BoolVar(&a.json, "json", false, "print JSON, one document a line")
}

// client finds the process to speak to: flags win over the configuration file.
func (a *api) client(c *cobra.Command) (console.Client, error) {
	client := console.Client{URL: "http://127.0.0.1:9464", HTTP: &http.Client{}}
	if a.file != "" {
		found, err := app.Client(c.Context(), a.file)
		if err != nil {
			return client, err
		}
		client = found
	}
	if a.url != "" {
		client.URL = strings.TrimSuffix(a.url, "/")
	}
	if a.tokenFile != "" {
		b, err := os.ReadFile(a.tokenFile)
		if err != nil {
			return client, &app.UsageError{Err: fmt.Errorf("read token: %w", err)}
		}
		client.Token = strings.TrimSuffix(string(b), "\n")
	}
	return client, nil
}

// listing is a list command: where the items come from and how one looks.
type listing[T any] struct {
	path  string
	query url.Values
	limit int
	head  []string
	row   func(T) (cells []string, t tone)
	empty string // said when there is nothing
}

// print asks for a list and prints it.
func (l listing[T]) print(c *cobra.Command, a *api) error {
	client, err := a.client(c)
	if err != nil {
		return err
	}
	out := newTable(c.OutOrStdout(), l.head...)
	for item, err := range console.List[T](c.Context(), client, l.path, l.query, l.limit) {
		if err != nil {
			return app.Refused(err)
		}
		if a.json {
			if err := printJSON(c, item); err != nil {
				return err
			}
			continue
		}
		cells, t := l.row(item)
		out.add(t, cells...)
	}
	if a.json {
		return nil
	}
	if out.empty() {
		fmt.Fprintln(c.OutOrStdout(), l.empty)
		return nil
	}
	return out.flush()
}

// group is a command that only has others under it.
func group(use, short string, under ...*cobra.Command) *cobra.Command {
	var examples []string // the first of each
	for _, c := range under {
		first, _, _ := strings.Cut(c.Example, "\n")
		examples = append(examples, first)
	}
	cmd := &cobra.Command{Use: use, Short: short, Example: strings.Join(examples, "\n"),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	cmd.AddCommand(under...)
	return cmd
}

// exactly wants one argument and says what it is.
func exactly(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return &app.UsageError{Err: fmt.Errorf("give %s (see %s --help)", what, c.CommandPath())}
	}
}
