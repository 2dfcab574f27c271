"""Authentication: API keys, session tokens, passwords. The routes decide the permissions of a caller."""
