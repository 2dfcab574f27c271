"""Benchmark `make bench`: the cost of the operator and the API on this machine, as shares of the loader's ceiling.

``loader`` is the Go program of ``dev/bench`` that posts and receives. ``site`` is one control plane with an operator.
``cases`` are the measurements. ``figures`` has the marks, and ``page`` shows the results.
"""
