"""Reconciling: observe → plan → apply, equally for a creation, an update, a restart and a change of a dependency.

Law of the package: `project`, `apikey`, `endpoint`, `signing_secret` and `plan` are pure; `reconciler` alone does I/O.
"""
