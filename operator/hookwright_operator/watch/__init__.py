"""Watches the cluster: all use of kopf, and the cache of the watched objects."""
