// Command bench is the benchmark's loader and receiver: one process with one monotonic clock, so that the time from a
// post to its arrival is exact. It uses only loopback, and its work is bounded in number and in time.
//
//	bench -receiver ADDRESS -control ADDRESS [-life DURATION]
//	    receives, and loads on request; the control address speaks JSON (see control.go)
package main

import (
	"context"
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
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func serve() error {
	receiver := flag.String("receiver", "127.0.0.1:0", "address that receives deliveries")
	control := flag.String("control", "127.0.0.1:0", "address that takes orders")
	life := flag.Duration("life", 3*time.Hour, "after which it ends by itself")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *life)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	r := newReceiver()
	if err := listen(*receiver, r); err != nil {
		return err
	}
	if err := listen(*control, newControl(r)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func listen(address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go http.Serve(listener, handler)
	return nil
}
