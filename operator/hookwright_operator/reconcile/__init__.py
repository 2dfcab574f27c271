"""Reconciling: observe → plan → apply, equally for a creation, an update, a restart and a change of a dependency.

Law of the package: `observer` reads, `applier` writes, and the modules of plans are pure.
"""
