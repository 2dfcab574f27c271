"""The operations behind the intake; they use delivery and store."""
