"""What the API knows of the cluster: tables in memory, each fed by a list and a watch.

`records` says what is kept of an object, `table` keeps and indexes it, `reflector` feeds a table,
`view` is all tables together. No request lists or gets anything from the API server.
"""
