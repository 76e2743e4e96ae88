package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/app"
)

var update = flag.Bool("update", false, "write docs/command-line.md again")

const referenceHead = `# Command line

Generated from the programs; change the text there.

` + "`herald run`, `herald demo`, `herald config check`, `herald man` and `herald verify-receiver` do their work themselves. Every other command asks the JSON API of a running\n" +
	"`herald` or `notifier`: the one that `-c FILE` describes, or the one at `--url` with the token in `--token-file`, or http://127.0.0.1:9464.\n" + `
Lists are tables for people, coloured on a terminal only (never with ` + "`NO_COLOR`" + `), and one JSON document per line with ` + "`--json`" + `.
Exit codes: 0 done, 1 failure, 2 usage or configuration.

Completion for bash, zsh, fish and PowerShell comes from ` + "`herald completion bash`" + ` and the like, manual pages from ` + "`herald man DIR`" + `. The simulator has its own help: ` + "`envoysim --help`" + `.
`

// leaves gives the commands that do something, in the order of the help.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !c.HasSubCommands() {
			out = append(out, c)
		}
		out = append(out, leaves(c)...)
	}
	return out
}

func programs() []*cobra.Command {
	return append(leaves(command()), app.RoleCommand(config.RoleWatcher, "watcher", version), app.RoleCommand(config.RoleNotifier, "notifier", version))
}

func reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	for _, c := range programs() {
		use := c.CommandPath() + strings.TrimPrefix(c.Use, c.Name())
		if !strings.Contains(use, "(") { // a choice is shown whole; else the table has the flags
			use, _, _ = strings.Cut(use, " --")
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
		if c.Long != "" {
			fmt.Fprintf(&b, "%s\n\n", c.Long)
		}
		fmt.Fprintf(&b, "    %s\n\n", use)
		var rows strings.Builder
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" {
				fmt.Fprintf(&rows, "| %s | %s |\n", flagNames(f), strings.ReplaceAll(f.Usage, "|", `\|`))
			}
		})
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "| flag | meaning |\n| --- | --- |\n%s\n", rows.String())
		}
		fmt.Fprintf(&b, "```sh\n%s\n```\n", outdent(c.Example))
	}
	return b.Bytes()
}

func flagNames(f *pflag.Flag) string {
	name := "`--" + f.Name
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	if kind := f.Value.Type(); kind != "bool" {
		name += " " + kind
	}
	name += "`"
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "[]" {
		name += " (" + f.DefValue + ")"
	}
	return name
}

func outdent(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func TestReferenceIsCurrent(t *testing.T) {
	const file = "../../docs/command-line.md"
	if *update {
		if err := os.WriteFile(file, reference(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, reference()) {
		t.Error("docs/command-line.md is not what the programs say: run go generate ./cmd/herald")
	}
}

// Every command shows how it is used, and all that tell something tell it to programs too.
func TestEveryCommandHasExamplesAndJSON(t *testing.T) {
	silent := map[string]bool{ // what has no answer, or one of its own form
		"herald run": true, "watcher": true, "notifier": true, "herald man": true, "herald config schema": true,
		"herald config check": true,
	}
	all := programs()
	if len(all) < 20 {
		t.Fatalf("only %d commands", len(all))
	}
	for _, c := range all {
		if !strings.HasPrefix(c.Example, "  "+c.CommandPath()) {
			t.Errorf("%s has no example of itself: %q", c.CommandPath(), c.Example)
		}
		if c.Flags().Lookup("json") == nil && !silent[c.CommandPath()] {
			t.Errorf("%s has no --json", c.CommandPath())
		}
	}
	var groups func(*cobra.Command)
	groups = func(c *cobra.Command) {
		if c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			groups(sub)
		}
	}
	groups(command())
}
