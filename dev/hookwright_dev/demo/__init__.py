"""The demo: the main use case with real servers, step by step."""
