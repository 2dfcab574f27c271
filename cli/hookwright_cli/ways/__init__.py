"""The two ways into Hookwright. Each is one class with the same verbs: `Way` is their protocol.

All documents have the form of `/v1`, also those of a kubeconfig, so scripts work through both.
"""
