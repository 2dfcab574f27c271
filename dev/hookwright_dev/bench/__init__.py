"""`make bench`: what the operator and the API cost on this machine, as shares of the loader's own ceiling.

``loader`` is the Go program of ``dev/bench`` that posts and receives; ``site`` one control plane with an operator on
it; ``cases`` what is measured, one module a subject; ``measures``, ``marks`` and ``page`` say what it comes to.
"""
