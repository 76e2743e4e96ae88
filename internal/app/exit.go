package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/heraldbridge/herald/config"
	"github.com/heraldbridge/herald/internal/console"
)

// Exit codes of every program.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2 // usage or configuration
)

// UsageError is a mistake in how a program was called.
type UsageError struct{ Err error }

// Error gives the mistake.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode maps an error to the exit code of a program.
func ExitCode(err error) int {
	var usage *UsageError
	var mistakes config.Errors
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage), errors.As(err, &mistakes):
		return ExitUsage
	}
	return ExitFailure
}

// Execute runs a command line until it is done or SIGTERM or SIGINT asks it to
// stop, prints its error to stderr, one line per mistake, and gives the exit code.
// A second signal ends the process at once.
func Execute(root *cobra.Command, args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop)
	strict(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		printError(stderr, root.Name(), err)
	}
	return ExitCode(err)
}

// strict makes every mistake in flags and words a UsageError.
func strict(cmd *cobra.Command) {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &UsageError{fmt.Errorf("%w (see %s --help)", err, c.CommandPath())}
	})
	if cmd.Args == nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return &UsageError{fmt.Errorf("unknown command or argument %q (see %s --help)", args[0], c.CommandPath())}
		}
	}
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
}

func printError(w io.Writer, program string, err error) {
	var mistakes config.Errors
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			fmt.Fprintln(w, m.Error())
		}
		return
	}
	fmt.Fprintf(w, "%s: %v\n", program, err)
}

// Refused makes a wrong parameter, as the API of a process calls it, a UsageError.
func Refused(err error) error {
	var r *console.Refusal
	if errors.As(err, &r) && r.Field != "" {
		return &UsageError{err}
	}
	return err
}
