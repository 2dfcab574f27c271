"""Who calls: API keys, session tokens, passwords. Nothing here decides what a caller may do; routes do."""
