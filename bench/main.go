// Command bench measures the product's two halves beside a floor: the least
// hand-written program that does the same kind of work, run in the same minute
// on the same machine, turn by turn. What counts is the ratio; the figures
// themselves say as much about the machine.
//
//	go run ./bench [--short] [--only NAME,...] [--json] [--profile DIR]
//
// NATS, Redis, the stand-in for Envoy, the receiver, the product and the floor
// each run in a process of their own, started and ended here, so that their CPU
// and memory can be told apart. Everything listens on loopback only.
//
// A slow machine never fails a run. The exit code is 1 when something is wrong:
// an event is lost, or a program reports an error. docs/benchmarks.md says what
// each benchmark means.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleCommand {
		os.Exit(runRole(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags of a run.
type options struct {
	short   bool
	only    []string
	json    bool
	profile string // folder for CPU profiles of the product; empty: none

	soak time.Duration // run the programs for so long instead of the benchmarks
	rate float64       // changes a second of a soak
	plot string        // file for the soak's plot; empty: none
}

// benchmark is one thing that is measured.
type benchmark struct {
	name string
	what string
	run  func(context.Context, *bench) error
}

// benchmarks in the order in which they run: those that share a world first.
func benchmarks() []benchmark {
	return []benchmark{
		{"watch", "events watched and published, as fast as they come", benchWatch},
		{"change", "from a change to its publication, at a steady pace", benchChange},
		{"latency", "from a change to its reception by a webhook, at a steady pace", benchLatency},
		{"trouble", "one dead sink among ten, and a receiver that comes back", benchTrouble},
		{"deliver", "draining a backlog into a webhook", benchDeliver},
		{"hold", "memory and idle CPU of held reads", benchHold},
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.short, "short", false, "one small turn of each, within a minute")
	fs.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	fs.StringVar(&o.profile, "profile", "", "write CPU profiles of the product into this `folder`")
	fs.DurationVar(&o.soak, "soak", 0, "instead of the benchmarks, run watcher and notifier for this `time` under load")
	fs.Float64Var(&o.rate, "rate", 200, "changes a second of the soak")
	fs.StringVar(&o.plot, "plot", "", "write a plot of the soak into this SVG `file`")
	only := fs.String("only", "", "run only these benchmarks, `names` with commas between")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [flags]")
		fs.PrintDefaults()
		for _, b := range benchmarks() {
			fmt.Fprintf(stderr, "  %-8s %s\n", b.name, b.what)
		}
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	for name := range strings.SplitSeq(*only, ",") {
		if name == "" {
			continue
		}
		if !slices.ContainsFunc(benchmarks(), func(b benchmark) bool { return b.name == name }) {
			return o, fmt.Errorf("no benchmark is called %q", name)
		}
		o.only = append(o.only, name)
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	begun := time.Now()
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	var failed []error
	list := benchmarks()
	if o.soak > 0 {
		list = []benchmark{{"soak", "the programs as they are deployed, for long", runSoak}}
	}
	for _, one := range list {
		if len(o.only) > 0 && !slices.Contains(o.only, one.name) {
			continue
		}
		b.say("%s: %s", one.name, one.what)
		if err := one.run(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("run %s: %w", one.name, err))
			b.leaveWorld()
		}
		if ctx.Err() != nil {
			break
		}
	}
	b.close(context.WithoutCancel(ctx))
	b.report.Seconds = time.Since(begun).Seconds()
	for _, err := range failed {
		b.report.Errors = append(b.report.Errors, err.Error())
	}
	if err := b.report.print(stdout, o.json); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if len(failed) > 0 {
		fmt.Fprintln(stderr, "bench:", errors.Join(failed...))
		return 1
	}
	return 0
}
