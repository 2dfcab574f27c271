"""A kubeconfig for a server that a test runs."""

import json
from pathlib import Path


def write_kubeconfig(path: Path, url: str, token: str) -> None:
    """Write a kubeconfig with one server and a bearer token."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(json.dumps(config))
