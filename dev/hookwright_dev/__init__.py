"""Hookwright on one machine: a real control plane on loopback, for the demo, the benchmark and the tests.

Nothing in the operator, the API or the contract imports this package.
"""
