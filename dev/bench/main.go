// Command bench is the benchmark's loader and receiver: one process with one monotonic clock, so that the time from a
// post to its arrival is exact. It uses only loopback, and its work is bounded in number and in time.
//
//	bench -receiver ADDRESS -secure ADDRESS -folder FOLDER -control ADDRESS [-life DURATION]
//	    receives, and loads on request; the control address speaks JSON (see control.go)
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
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
	secure := flag.String("secure", "127.0.0.1:0", "address that receives deliveries with every kind of credential")
	folder := flag.String("folder", ".", "has receiver.crt and receiver.key, and authority.crt of clients")
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
	if err := listenSecurely(*secure, *folder, r); err != nil {
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

func listenSecurely(address, folder string, handler http.Handler) error {
	authority, err := os.ReadFile(filepath.Join(folder, "authority.crt"))
	if err != nil {
		return err
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	config := &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server := &http.Server{Handler: handler, TLSConfig: config}
	go server.ServeTLS(listener, filepath.Join(folder, "receiver.crt"), filepath.Join(folder, "receiver.key"))
	return nil
}
