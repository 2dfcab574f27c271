"""What the operator and the API need to run: HTTP server with its bounds, client of the API server, logs.

The package uses only the contract in ``hookwright_crds``; the operator and the API use this package and not each other.
"""
