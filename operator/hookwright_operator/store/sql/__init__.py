"""The SQL statements of the store, and the mapping from rows to records."""
