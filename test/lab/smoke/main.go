// Command smoke checks that the lab tells the truth. In each scene it moves the
// route's weights, sends traffic through the gateway, and compares three things:
// the weights, what the client counted, and what the proxy's counters say in
// Prometheus. The last two must be equal, not just near.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1) //nolint:forbidigo // a program ends with a code
	}
}

func run(args []string, out io.Writer) error {
	var lab lab
	flags := flag.NewFlagSet("smoke", flag.ContinueOnError)
	flags.StringVar(&lab.kubectl, "kubectl", "kubectl", "kubectl to run")
	flags.StringVar(&lab.kubeconfig, "kubeconfig", "", "its configuration")
	flags.StringVar(&lab.prometheus, "prometheus", "", "URL of Prometheus")
	rps := flags.Float64("rps", 200, "requests a second")
	span := flags.Duration("for", 5*time.Second, "how long at each weight")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no scenes: name those to check, as NAMESPACE:KIND")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	texts := make([]strings.Builder, flags.NArg())
	errs := make([]error, flags.NArg())
	var all sync.WaitGroup
	for i, arg := range flags.Args() {
		all.Go(func() {
			ns, kind, _ := strings.Cut(arg, ":")
			s := scene{lab: lab, ns: ns, kind: kind, rps: *rps, span: *span, out: &texts[i]}
			if err := s.check(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", arg, err)
			}
		})
	}
	all.Wait()
	for i := range texts {
		fmt.Fprint(out, texts[i].String())
	}
	return errors.Join(errs...)
}
