package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
)

// config is everything that is fixed at start. Its faults are only the first
// ones: see faults.go.
type config struct {
	listen          string
	version         string
	lameDuck        time.Duration
	shutdownTimeout time.Duration
	slowStart       time.Duration
	admin           bool
	noGraceful      bool
	faults          faults
}

// The version becomes a header and a label, so it is kept to what image tags use.
var versionName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// parseConfig reads the flags over their environment variables over the
// defaults. It returns flag.ErrHelp after it has written the help to helpOut.
func parseConfig(args []string, env func(string) (string, bool), helpOut io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("go-api", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned, and printed once by the caller
	fs.Usage = func() {}

	fs.StringVar(&c.listen, "listen", ":8080", "address to serve on; port 0 picks a free one")
	fs.StringVar(&c.version, "version-name", "v1", "version shown in answers, in X-Version and in build_info")
	fs.DurationVar(&c.lameDuck, "lame-duck", 5*time.Second, "after SIGTERM: time to be unready but still accepting")
	fs.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 20*time.Second, "after the lame duck: time for requests to finish")
	fs.BoolVar(&c.admin, "admin", false, "serve /admin/faults, on the same listener, without authentication")
	fs.Float64Var(&c.faults.ErrorRate, "error-rate", 0, "fault: share of requests answered 500, from 0 to 1")
	fs.DurationVar((*time.Duration)(&c.faults.Latency), "latency", 0, "fault: time added to each request, at most "+maxLatency.String())
	fs.DurationVar(&c.slowStart, "slow-start", 0, "fault: time after start until /readyz may be 200")
	fs.BoolVar(&c.faults.IgnoreSigterm, "ignore-sigterm", false, "fault: go on after SIGTERM (SIGINT still ends it)")
	fs.BoolVar(&c.faults.NeverReady, "never-ready", false, "fault: /readyz stays 503")
	fs.BoolVar(&c.noGraceful, "no-graceful", false, "") // the counter-example in README.md; not in --help

	if err := setFromEnv(fs, env); err != nil {
		return c, err
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		writeHelp(fs, helpOut)
		return c, err
	} else if err != nil {
		return c, err
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return c, c.validate()
}

func (c config) validate() error {
	if _, _, err := net.SplitHostPort(c.listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if !versionName.MatchString(c.version) {
		return fmt.Errorf("--version-name: %q is not 1 to 63 letters, digits, '.', '_' or '-'", c.version)
	}
	if c.lameDuck < 0 {
		return fmt.Errorf("--lame-duck: %v is negative", c.lameDuck)
	}
	if c.shutdownTimeout <= 0 {
		return fmt.Errorf("--shutdown-timeout: %v is not above zero", c.shutdownTimeout)
	}
	if c.slowStart < 0 {
		return fmt.Errorf("--slow-start: %v is negative", c.slowStart)
	}
	return c.faults.validate()
}

// envName of lame-duck is GO_API_LAME_DUCK.
func envName(flagName string) string {
	return "GO_API_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

func setFromEnv(fs *flag.FlagSet, env func(string) (string, bool)) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		value, ok := env(envName(f.Name))
		if !ok || value == "" {
			return
		}
		if err := fs.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("environment %s=%q: %w", envName(f.Name), value, err))
		}
	})
	return errors.Join(errs...)
}

func writeHelp(fs *flag.FlagSet, out io.Writer) {
	fmt.Fprint(out, "go-api: a sample HTTP API with a SIGTERM-safe shutdown.\n\n"+
		"A flag wins over its environment variable; an empty variable counts as unset.\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FLAG\tDEFAULT\tENVIRONMENT\tMEANING")
	fs.VisitAll(func(f *flag.Flag) {
		if f.Usage != "" {
			fmt.Fprintf(table, "--%s\t%s\t%s\t%s\n", f.Name, f.DefValue, envName(f.Name), f.Usage)
		}
	})
	table.Flush()
	fmt.Fprint(out, "\nExit codes: 0 stopped cleanly, 1 requests were cut or the server could not run, 2 bad usage.\n")
}
