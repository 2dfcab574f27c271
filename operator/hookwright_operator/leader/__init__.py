"""The election of the leader, and the loops that only the leader runs."""
