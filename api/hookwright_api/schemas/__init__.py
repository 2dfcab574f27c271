"""The bodies of requests and answers, a module for each subject."""
