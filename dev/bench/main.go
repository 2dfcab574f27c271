// Command bench is the benchmark's loader and receiver: one process with one monotonic clock, so that the time from a
// post to its arrival is exact. It uses only loopback, and its work is bounded in number and in time.
//
//	bench serve -receiver ADDRESS -control ADDRESS [-life DURATION]
//	    receives, and loads on request; the control address speaks JSON (see control.go)
//	bench direct [-seconds N] [-fan N]
//	    posts directly to its own receiver and prints the report: the ceiling of this machine
//	bench load -url URL -token TOKEN -receiver ADDRESS [-seconds N] [-rate N] [-fan N]
//	    posts events at an intake whose endpoints point to http://ADDRESS/e/0 and so on, and prints the report
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]func([]string) error{"serve": serve, "direct": direct, "load": load}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("the command is missing: give serve, direct or load")
	}
	return commands[args[0]](args[1:])
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	receiver := flags.String("receiver", "127.0.0.1:0", "address that receives deliveries")
	control := flags.String("control", "127.0.0.1:0", "address that takes orders")
	life := flags.Duration("life", 3*time.Hour, "after which it ends by itself")
	flags.Parse(args)
	ctx, cancel := context.WithTimeout(context.Background(), *life)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	r := newReceiver()
	if _, err := listen(*receiver, r); err != nil {
		return err
	}
	if _, err := listen(*control, newControl(r)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func direct(args []string) error {
	flags := flag.NewFlagSet("direct", flag.ExitOnError)
	seconds := flags.Float64("seconds", 5, "how long to post")
	fan := flags.Int("fan", 1, "posts an event")
	flags.Parse(args)
	r := newReceiver()
	address, err := listen("127.0.0.1:0", r)
	if err != nil {
		return err
	}
	spec := Spec{Seconds: *seconds, Fan: *fan, Copies: *fan}
	for i := range *fan {
		spec.Targets = append(spec.Targets, Target{URL: fmt.Sprintf("http://%s/e/%d", address, i)})
	}
	return report(r, spec)
}

func load(args []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	url := flags.String("url", "", "the intake's URL for a project's events")
	token := flags.String("token", "", "bearer token")
	kind := flags.String("type", "delivered", "event type")
	receiver := flags.String("receiver", "127.0.0.1:8900", "address that the endpoints point to")
	seconds := flags.Float64("seconds", 10, "how long to post")
	rate := flags.Float64("rate", 0, "events a second; 0: as fast as it goes")
	fan := flags.Int("fan", 1, "endpoints that subscribe")
	flags.Parse(args)
	r := newReceiver()
	if _, err := listen(*receiver, r); err != nil {
		return err
	}
	return report(r, Spec{
		Targets: []Target{{URL: *url, Type: *kind}},
		Headers: map[string]string{"Authorization": "Bearer " + *token},
		Seconds: *seconds, Rate: *rate, Fan: *fan, WaitSeconds: 60,
	})
}

func report(r *Receiver, spec Spec) error {
	run, err := Load(r, spec)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(run.Report())
}

func listen(address string, handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	go http.Serve(listener, handler)
	return listener.Addr().String(), nil
}
