"""The companion API of Hookwright: ``/v1`` for API clients and the dashboard, over the same resources.

It holds no state. Watches keep its view of projects, keys, endpoints and users up to date. It writes changes to those
resources. It forwards events, tests and reads of the delivery log to the operator.
"""
