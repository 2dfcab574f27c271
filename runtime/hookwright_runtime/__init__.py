"""What the operator and the API need to run: the HTTP server with its bounds, and file descriptors.

The package uses only the contract in ``hookwright_crds``; the operator and the API use this package and not each other.
"""
