"""Delivering: who is sent what, when, and with which signature.

`signing` and `schedule` are pure; `guard` judges addresses; `sender` makes one attempt, by `client` and
`http1`; `lanes` keep every endpoint to itself; `scheduler` shares places by namespace; `loops` claim, send
and settle; `health` tells the cluster what came of it, rarely.
"""
