"""A kubeconfig for a server that a test runs."""

import json
from pathlib import Path


def write_kubeconfig(path: Path, url: str, token: str, *, context: str = "c", namespace: str = "default") -> None:
    """Write a kubeconfig with one server, a bearer token, and one context."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "k", "user": "u", "namespace": namespace}}],
        "clusters": [{"name": "k", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    path.write_text(json.dumps(config))
