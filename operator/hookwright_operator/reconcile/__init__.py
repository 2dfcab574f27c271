"""Reconciling: observe → plan → apply, equally for a creation, an update, a restart and a change of a dependency.

Law of the package: `observer` reads and `applier` writes; the modules between them plan and are pure.
"""
