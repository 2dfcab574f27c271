package main

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

func indexOf(body []byte, text string) int { return bytes.Index(body, []byte(text)) }

// Run is one load with its data; times are nanoseconds since its begin, never 0.
type Run struct {
	spec     Spec
	number   int
	began    time.Time
	posted   []atomic.Int64 // by event
	arrived  []atomic.Int64 // by delivery: event * fan + endpoint
	arrivals atomic.Int64
	repeated atomic.Int64
	accepted atomic.Int64
	sent     atomic.Int64
	answered atomic.Int64 // time of the last answer
	mutex    sync.Mutex
	answers  []int64 // durations of requests
	refused  map[int]int
	fault    string
}

func newRun(spec Spec, number int) *Run {
	return &Run{
		spec: spec, number: number, began: time.Now(), refused: map[int]int{},
		posted:  make([]atomic.Int64, spec.Events),
		arrived: make([]atomic.Int64, spec.Events*spec.Fan),
	}
}

func (r *Run) now() int64 { return int64(time.Since(r.began)) + 1 }

// arrive records a delivery for an endpoint; the first counts, the others are duplicates.
func (r *Run) arrive(sequence, endpoint int) {
	if sequence >= len(r.posted) || r.spec.Fan == 0 {
		return
	}
	slot := sequence*r.spec.Fan + endpoint%r.spec.Fan
	if r.arrived[slot].CompareAndSwap(0, r.now()) {
		r.arrivals.Add(1)
	} else {
		r.repeated.Add(1)
	}
}

// answer records the end of a request with so many events.
func (r *Run) answer(started int64, status, events int, fault error) {
	ended := r.now()
	for last := r.answered.Load(); ended > last && !r.answered.CompareAndSwap(last, ended); {
		last = r.answered.Load()
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.answers = append(r.answers, ended-started)
	switch {
	case fault != nil:
		r.refused[0] += events
		r.fault = fault.Error()
	case status < 200 || status > 299:
		r.refused[status] += events
	default:
		r.accepted.Add(int64(events))
	}
}

// expected returns how many deliveries will arrive, computed from the accepted events.
func (r *Run) expected() int64 { return r.accepted.Load() * int64(r.spec.Fan) / int64(r.spec.Copies) }

// await returns when all expected deliveries have arrived, or after so many seconds.
func (r *Run) await(seconds float64) {
	deadline := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for r.arrivals.Load() < r.expected() && time.Now().Before(deadline) {
		time.Sleep(2 * time.Millisecond)
	}
}

// endpointOf returns the endpoint of a delivery.
func (r *Run) endpointOf(slot int) int {
	if r.spec.Fan > 1 {
		return slot % r.spec.Fan
	}
	return slot / r.spec.Batch % len(r.spec.Targets)
}

// Quantiles are in milliseconds.
type Quantiles struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Report is the result of a run. Rates count from the first post to the last answer, or to the last arrival.
type Report struct {
	Sent        int64       `json:"sent"`     // events
	Accepted    int64       `json:"accepted"` // events answered 2xx
	Refused     map[int]int `json:"refused"`  // events by status, 0: no answer
	Fault       string      `json:"fault"`
	Expected    int64       `json:"expected"` // deliveries
	Arrived     int64       `json:"arrived"`
	Duplicates  int64       `json:"duplicates"`
	PostSeconds float64     `json:"post_seconds"`
	Seconds     float64     `json:"seconds"`
	Accepts     float64     `json:"accepted_per_second"`
	Arrives     float64     `json:"arrived_per_second"`
	Answer      Quantiles   `json:"answer_ms"`
	Arrival     Quantiles   `json:"arrival_ms"` // post → arrival, of the endpoints that do not hang
}

// Report returns the result so far.
func (r *Run) Report() Report {
	r.mutex.Lock()
	answers, refused := slices.Clone(r.answers), make(map[int]int)
	for status, number := range r.refused {
		refused[status] = number
	}
	fault := r.fault
	r.mutex.Unlock()
	latencies, last := r.latencies()
	out := Report{
		Sent: r.sent.Load(), Accepted: r.accepted.Load(), Refused: refused, Fault: fault,
		Expected: r.expected(), Arrived: r.arrivals.Load(), Duplicates: r.repeated.Load(),
		PostSeconds: float64(r.answered.Load()) / 1e9, Seconds: float64(last) / 1e9,
		Answer: quantiles(answers), Arrival: quantiles(latencies),
	}
	out.Accepts = ratio(float64(out.Accepted)/float64(r.spec.Copies), out.PostSeconds)
	out.Arrives = ratio(float64(out.Arrived), out.Seconds)
	return out
}

func (r *Run) latencies() (durations []int64, last int64) {
	for slot := range min(int(r.sent.Load())*r.spec.Fan, len(r.arrived)) {
		at := r.arrived[slot].Load()
		if at == 0 {
			continue
		}
		last = max(last, at)
		if !slices.Contains(r.spec.Hanging, r.endpointOf(slot)) {
			durations = append(durations, at-r.posted[slot/r.spec.Fan].Load())
		}
	}
	return durations, last
}

func ratio(number, seconds float64) float64 {
	if seconds == 0 {
		return 0
	}
	return number / seconds
}

func quantiles(durations []int64) Quantiles {
	if len(durations) == 0 {
		return Quantiles{}
	}
	slices.Sort(durations)
	at := func(share float64) float64 {
		index := int(math.Ceil(share*float64(len(durations)))) - 1
		return float64(durations[max(index, 0)]) / 1e6
	}
	return Quantiles{len(durations), at(0.5), at(0.9), at(0.99), at(1)}
}
