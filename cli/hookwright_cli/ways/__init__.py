"""The two ways into Hookwright: one client with two prefixes, and one class each for what differs.

All documents have the form of `/v1`, also those of a kubeconfig, so scripts work through both.
"""
