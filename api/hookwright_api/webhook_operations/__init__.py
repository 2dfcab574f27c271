"""The operations on webhooks behind the routes: creation, changes, rotation of the secret."""
