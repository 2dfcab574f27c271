package main

import (
	"errors"
	"fmt"
)

// Target is a URL for events. The receiver's path /e/N belongs to endpoint N. If each event goes to one endpoint,
// target N leads to endpoint N.
type Target struct {
	URL  string `json:"url"`
	Type string `json:"type"`
}

// Spec defines a load: events, targets, rate and duration. Zero values mean the benchmark's defaults: 315-byte events,
// 16 posts at a time, one event a request.
type Spec struct {
	Method      string            `json:"method"` // GET sends no body and expects no arrivals
	Targets     []Target          `json:"targets"`
	Headers     map[string]string `json:"headers"`
	Seconds     float64           `json:"seconds"` // post for so long,
	Events      int               `json:"events"`  // or so many events, if these end first
	Concurrency int               `json:"concurrency"`
	Rate        float64           `json:"rate"`         // requests a second; 0: as fast as possible
	Batch       int               `json:"batch"`        // events a request
	Fan         int               `json:"fan"`          // expected deliveries of an event
	Copies      int               `json:"copies"`       // posts an event, at once, to as many targets: `direct` with fan-out
	WaitSeconds float64           `json:"wait_seconds"` // for arrivals after the last answer
	Hanging     []int             `json:"hanging"`      // endpoints whose arrivals do not count in the latencies
}

const (
	eventBytes = 315
	mostEvents = 4_000_000
	mostSlots  = 8_000_000
	mostTime   = 1800.0
)

// complete sets the defaults of missing fields, and refuses a load without an end.
func (s Spec) complete() (Spec, error) {
	if s.Method == "" {
		s.Method = "POST"
	}
	for _, number := range []*int{&s.Batch, &s.Copies} {
		*number = max(*number, 1)
	}
	if s.Concurrency == 0 {
		s.Concurrency = 16
	}
	if s.Events == 0 {
		s.Events = min(mostEvents, mostSlots/max(s.Fan, 1))
	}
	switch {
	case len(s.Targets) == 0:
		return s, errors.New("targets is empty; give at least one")
	case s.Seconds <= 0 || s.Seconds > mostTime || s.WaitSeconds > mostTime:
		return s, fmt.Errorf("seconds must be above 0, and every time at most %g", mostTime)
	case s.Events > mostEvents || s.Events*max(s.Fan, 1) > mostSlots:
		return s, fmt.Errorf("events must be at most %d, and deliveries at most %d", mostEvents, mostSlots)
	case s.Copies > len(s.Targets):
		return s, errors.New("copies is above the number of targets; give at most as many")
	}
	return s, nil
}

// event returns an event of exactly eventBytes, whose messageId contains the run and the sequence number.
func event(run, sequence int, kind string) []byte {
	if kind == "" {
		kind = "delivered"
	}
	body := make([]byte, 0, eventBytes)
	body = append(body, '{')
	body = fmt.Appendf(body, `"id":"r%d-%09d",`, run, sequence)
	body = fmt.Appendf(body, `"type":"%s","messageId":"r%d-%09d","to":"ada@example.com","text":"`, kind, run, sequence)
	for len(body) < eventBytes-2 {
		body = append(body, 'x')
	}
	return append(body, '"', '}')
}

// parseMessageID returns the run and the sequence number of a delivered event, for any JSON spacing.
func parseMessageID(body []byte) (run, sequence int, ok bool) {
	const name = `"messageId"`
	at := indexOf(body, name)
	if at < 0 {
		return 0, 0, false
	}
	rest := body[at+len(name):]
	for len(rest) > 0 && rest[0] != 'r' {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return 0, 0, false
	}
	run, rest = digits(rest[1:])
	if len(rest) == 0 || rest[0] != '-' {
		return 0, 0, false
	}
	sequence, rest = digits(rest[1:])
	return run, sequence, len(rest) > 0 && rest[0] == '"'
}

func digits(text []byte) (number int, rest []byte) {
	for len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
		number, text = number*10+int(text[0]-'0'), text[1:]
	}
	return number, text
}
