package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Behaviour defines an endpoint's answer; the zero value is 200 at once.
type Behaviour struct {
	Seconds float64 `json:"seconds"` // before the answer
	Status  int     `json:"status"`
}

type behaviours struct {
	byEndpoint map[int]Behaviour
	replaced   chan struct{} // closed when a new behaviour replaces this one; requests that hang are then answered
}

// Receiver accepts deliveries at /e/N and records the arrival of those that belong to the current run. It also gives
// access tokens. By https it accepts only deliveries with credentials.
type Receiver struct {
	current    atomic.Pointer[Run]
	behaviours atomic.Pointer[behaviours]
	strays     atomic.Int64 // deliveries of an earlier run, or of none
	runs       atomic.Int64
	buffers    sync.Pool
}

func newReceiver() *Receiver {
	r := &Receiver{buffers: sync.Pool{New: func() any { buffer := make([]byte, 4096); return &buffer }}}
	r.behave(nil)
	return r
}

// behave replaces the behaviours of endpoints, and answers every request that hangs.
func (r *Receiver) behave(byEndpoint map[int]Behaviour) {
	old := r.behaviours.Swap(&behaviours{byEndpoint, make(chan struct{})})
	if old != nil {
		close(old.replaced)
	}
}

// begin makes a run the current one.
func (r *Receiver) begin(spec Spec) *Run {
	run := newRun(spec, int(r.runs.Add(1)))
	r.current.Store(run)
	return run
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/token" {
		io.WriteString(w, `{"access_token":"token","token_type":"Bearer","expires_in":3600}`)
		return
	}
	if q.TLS != nil && (q.Header.Get("Authorization") != "Bearer token" || q.Header.Get("X-Api-Key") == "") {
		http.Error(w, "no credentials", http.StatusUnauthorized)
		return
	}
	endpoint, err := strconv.Atoi(strings.TrimPrefix(q.URL.Path, "/e/"))
	if err != nil {
		http.NotFound(w, q)
		return
	}
	buffer := r.buffers.Get().(*[]byte)
	defer r.buffers.Put(buffer)
	length, err := io.ReadFull(q.Body, *buffer)
	if err == nil {
		http.Error(w, "larger than any event of the benchmark", http.StatusRequestEntityTooLarge)
		return
	}
	number, sequence, ok := parseMessageID((*buffer)[:length])
	if run := r.current.Load(); ok && run != nil && number == run.number {
		run.arrive(sequence, endpoint)
	} else {
		r.strays.Add(1)
	}
	r.respond(w, q, endpoint)
}

func (r *Receiver) respond(w http.ResponseWriter, q *http.Request, endpoint int) {
	now := r.behaviours.Load()
	how, special := now.byEndpoint[endpoint]
	if !special {
		return
	}
	if how.Seconds > 0 {
		select {
		case <-time.After(time.Duration(how.Seconds * float64(time.Second))):
		case <-now.replaced:
		case <-q.Context().Done():
		}
	}
	if how.Status != 0 {
		w.WriteHeader(how.Status)
	}
}
