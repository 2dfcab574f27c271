"""The companion API of Hookwright: ``/v1`` for API clients and the dashboard, over the same resources.

It holds no state. What it knows of projects, keys, endpoints and users is a view fed by watches; what
it changes are those resources; events, tests and the delivery log go to the operator.
"""
