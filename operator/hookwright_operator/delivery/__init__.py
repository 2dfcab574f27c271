"""Delivery: attempts to send accepted events to endpoints, with signatures and retries.

`signing` and `schedule` are pure. `guard` checks addresses. `sender` makes one attempt, by `client` and `http1`.
`lanes` isolate endpoints from each other. `scheduler` shares places among namespaces. `loops` claim, send and settle.
`health` reports results to the cluster at a low rate.
"""
