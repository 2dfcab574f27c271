"""The store of deliveries: one schema and one implementation over SQLAlchemy Core; `store.Store` is its face."""
