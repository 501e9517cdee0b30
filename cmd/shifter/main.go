package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes that are not a release's own (those are in package api).
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// exitError carries an exit code through cobra. A nil cause means that all has
// been said.
type exitError struct {
	code  int
	cause error
}

func (e exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.cause.Error()
}

func (e exitError) Unwrap() error { return e.cause }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its arguments, its outputs and its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var coded exitError
	if !errors.As(err, &coded) {
		coded = exitError{exitUsage, err}
	}
	if coded.cause != nil {
		fmt.Fprintln(stderr, "shifter:", coded.cause)
	}
	return coded.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "shifter",
		Short:         "Move traffic to a new version in steps, on evidence, and back without dropping a request",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newJudge(), newVersion())
	root.AddCommand(moreCommands()...)
	return root
}
