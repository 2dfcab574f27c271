"""A real control plane on loopback, and the operator, the API and PostgreSQL as child processes."""
