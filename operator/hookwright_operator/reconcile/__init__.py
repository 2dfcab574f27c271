"""Reconciling: observe → plan → apply, the same way for a creation, an update, a restart and a dependency's change.

Law of the package: `project`, `apikey`, `endpoint`, `plan` and `observed` are pure; `world` alone does I/O;
`queue` decides when a key's turn comes.
"""
