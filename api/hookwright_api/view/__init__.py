"""The API's view of the cluster: tables in memory, each updated by a list and a watch.

`table_records` defines the kept fields of an object, `table` stores and indexes them, `informer` updates a table, and
`view` has all tables. No request lists objects of the API server. Only a change of a webhook reads its object, because
the view does not keep the owners of its fields.
"""
