package main

import (
	"errors"
	"fmt"
)

// Target is where events are posted. The receiver's path /e/N belongs to endpoint N; target N leads to endpoint N
// where each event goes to one endpoint.
type Target struct {
	URL  string `json:"url"`
	Type string `json:"type"`
}

// Spec says what to post, where, how fast and how long. Zero values are the benchmark's own: 315-byte events, 16 posts
// at a time, one event a request.
type Spec struct {
	Method      string            `json:"method"` // GET sends no body and expects no arrivals
	Targets     []Target          `json:"targets"`
	Headers     map[string]string `json:"headers"`
	Seconds     float64           `json:"seconds"` // post for so long,
	Events      int               `json:"events"`  // or so many events, whatever ends first
	Concurrency int               `json:"concurrency"`
	Rate        float64           `json:"rate"`         // requests a second; 0: as fast as it goes
	Batch       int               `json:"batch"`        // events a request
	Fan         int               `json:"fan"`          // deliveries expected of an event
	Copies      int               `json:"copies"`       // posts an event, at once, to as many targets: `direct` with fan-out
	WaitSeconds float64           `json:"wait_seconds"` // for arrivals after the last answer
	Hanging     []int             `json:"hanging"`      // endpoints whose arrivals are no part of the latencies
	Anonymous   bool              `json:"anonymous"`    // events without an id, so that none is checked for repetition
}

const (
	eventBytes = 315
	mostEvents = 4_000_000
	mostSlots  = 8_000_000
	mostTime   = 1800.0
)

// complete fills in what was left out, and refuses what would not end.
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
		return s, fmt.Errorf("seconds must be above 0, and no time above %g", mostTime)
	case s.Events > mostEvents || s.Events*max(s.Fan, 1) > mostSlots:
		return s, fmt.Errorf("at most %d events and %d deliveries can be followed", mostEvents, mostSlots)
	case s.Copies > len(s.Targets):
		return s, errors.New("copies is above the number of targets")
	}
	return s, nil
}

// event returns an event of exactly eventBytes, whose messageId tells the run and the sequence number.
func event(run, sequence int, kind string, anonymous bool) []byte {
	if kind == "" {
		kind = "delivered"
	}
	body := make([]byte, 0, eventBytes)
	body = append(body, '{')
	if !anonymous {
		body = fmt.Appendf(body, `"id":"r%d-%09d",`, run, sequence)
	}
	body = fmt.Appendf(body, `"type":"%s","messageId":"r%d-%09d","to":"ada@example.com","text":"`, kind, run, sequence)
	for len(body) < eventBytes-2 {
		body = append(body, 'x')
	}
	return append(body, '"', '}')
}

// parseMessageID finds the run and the sequence number in a delivered event, however it was spaced.
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
