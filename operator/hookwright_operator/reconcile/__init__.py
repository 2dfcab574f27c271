"""Reconciling: observe → plan → apply, equally for a creation, an update, a restart and a change of a dependency.

Law of the package: `project`, `apikey`, `endpoint`, `plan` and `observed` are pure; `world` alone does I/O; `queue`
decides when a key is reconciled.
"""
