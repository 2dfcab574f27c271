package main

import (
	"encoding/json"
	"net/http"
)

// newControl answers, in JSON:
//
//	POST /load        a Spec → its Report, when everything has arrived or the time is over
//	POST /await       {"seconds": N} → the last run's Report, when everything has arrived or the time is over
//	PUT  /behaviours  {"3": {"seconds": 15}} the behaviours of endpoints from now on
//	GET  /strays      the number of deliveries that do not belong to the current run
func newControl(r *Receiver) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /load", func(w http.ResponseWriter, q *http.Request) {
		var spec Spec
		if !read(w, q, &spec) {
			return
		}
		run, err := Load(r, spec)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		write(w, run.Report())
	})
	mux.HandleFunc("POST /await", func(w http.ResponseWriter, q *http.Request) {
		var order struct {
			Seconds float64 `json:"seconds"`
		}
		if run := r.current.Load(); read(w, q, &order) && found(w, run) {
			run.await(min(order.Seconds, mostTime))
			write(w, run.Report())
		}
	})
	mux.HandleFunc("PUT /behaviours", func(w http.ResponseWriter, q *http.Request) {
		var wanted map[int]Behaviour
		if read(w, q, &wanted) {
			r.behave(wanted)
			write(w, wanted)
		}
	})
	mux.HandleFunc("GET /strays", func(w http.ResponseWriter, _ *http.Request) { write(w, r.strays.Load()) })
	return mux
}

func found(w http.ResponseWriter, run *Run) bool {
	if run == nil {
		http.Error(w, "there was no load yet; POST /load first", http.StatusNotFound)
	}
	return run != nil
}

func read(w http.ResponseWriter, q *http.Request, into any) bool {
	decoder := json.NewDecoder(q.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func write(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(what)
}
