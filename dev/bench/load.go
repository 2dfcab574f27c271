package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// mostAtOnce bounds the requests under way of a load with a rate.
const mostAtOnce = 4096

var client = &http.Client{
	Timeout: 60 * time.Second,
	Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 1024,
		DisableCompression:  true,
	},
}

// Load posts the events of a spec and returns when everything has arrived, or after the time limit.
func Load(r *Receiver, spec Spec) (*Run, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	run := r.begin(spec)
	if spec.Rate > 0 {
		run.loadAtRate()
	} else {
		run.loadAtFullSpeed()
	}
	run.await(spec.WaitSeconds)
	return run, nil
}

func (r *Run) loadAtFullSpeed() {
	end := time.Now().Add(time.Duration(r.spec.Seconds * float64(time.Second)))
	requests := r.spec.Events / r.spec.Batch
	var next atomic.Int64
	var workers sync.WaitGroup
	for range r.spec.Concurrency {
		workers.Go(func() {
			for time.Now().Before(end) {
				request := int(next.Add(1)) - 1
				if request >= requests {
					return
				}
				r.request(request)
			}
		})
	}
	workers.Wait()
}

// loadAtRate posts by the clock, without waiting for earlier answers: a slow answer must not reduce the load.
func (r *Run) loadAtRate() {
	gap := time.Duration(float64(time.Second) / r.spec.Rate)
	requests := min(r.spec.Events/r.spec.Batch, int(r.spec.Seconds*r.spec.Rate))
	places := make(chan struct{}, mostAtOnce)
	began := time.Now()
	var workers sync.WaitGroup
	for request := range requests {
		time.Sleep(time.Until(began.Add(time.Duration(request) * gap)))
		places <- struct{}{}
		workers.Go(func() {
			r.request(request)
			<-places
		})
	}
	workers.Wait()
}

// request posts the events of one request; with copies, one event to several targets at once.
func (r *Run) request(number int) {
	if r.spec.Copies == 1 {
		target := r.spec.Targets[number%len(r.spec.Targets)]
		r.post(target, r.events(number, target.Type), r.stamp(number))
		return
	}
	body, started := r.events(number, r.spec.Targets[0].Type), r.stamp(number)
	for _, target := range r.spec.Targets[:r.spec.Copies] {
		r.post(target, body, started)
	}
}

func (r *Run) events(request int, kind string) []byte {
	if r.spec.Method != http.MethodPost {
		return nil
	}
	if r.spec.Batch == 1 {
		return event(r.number, request, kind)
	}
	body := make([]byte, 0, r.spec.Batch*(eventBytes+1)+1)
	for i := range r.spec.Batch {
		body = append(append(body, ','), event(r.number, request*r.spec.Batch+i, kind)...)
	}
	body[0] = '['
	return append(body, ']')
}

// stamp records when the events of a request were posted.
func (r *Run) stamp(request int) int64 {
	started := r.now()
	for i := range r.spec.Batch {
		r.posted[request*r.spec.Batch+i].Store(started)
	}
	r.sent.Add(int64(r.spec.Batch))
	return started
}

func (r *Run) post(target Target, body []byte, started int64) {
	status, fault := r.exchange(target.URL, body)
	r.answer(started, status, r.spec.Batch, fault)
}

func (r *Run) exchange(url string, body []byte) (int, error) {
	request, err := http.NewRequest(r.spec.Method, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.spec.Headers {
		request.Header.Set(name, value)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}
