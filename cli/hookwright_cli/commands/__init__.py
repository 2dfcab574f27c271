"""The commands, a module for each subject. A command parses, calls the way, and prints."""
