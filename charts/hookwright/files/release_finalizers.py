"""Remove Hookwright's finalizer from every endpoint at uninstall; runs in a pod.

The arguments are the served namespaces; no argument means all. The program needs only the standard library. It prints
the number of released endpoints, and exits with 1 if the API server refuses.
"""  # noqa: INP001 - carried by the chart, no part of a package

import json
import os
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

FINALIZER = "hookwright.dev/deliveries"
ACCOUNT = Path(os.environ.get("SERVICE_ACCOUNT_FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"))
RESOURCES = "/apis/hookwright.dev/v1alpha1"
ATTEMPTS = 5


def request(method: str, path: str, body: object = None) -> Any:
    """Send a request to the API server; raise HTTPError if it refuses."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    asked = Request(
        f"https://{f'[{host}]' if ':' in host else host}:{port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
            "Content-Type": "application/merge-patch+json",
        },
    )
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urlopen(asked, context=trusted, timeout=10) as answer:  # noqa: S310 - always https
        return json.load(answer)


def held(namespace: str | None) -> Iterator[dict[str, Any]]:
    """Yield the metadata of every endpoint with the finalizer."""
    place = f"/namespaces/{namespace}" if namespace else ""
    page = ""
    while True:
        listed = request("GET", f"{RESOURCES}{place}/webhookendpoints?limit=500&continue={page}")
        yield from (item["metadata"] for item in listed["items"] if FINALIZER in item["metadata"].get("finalizers", ()))
        page = listed["metadata"].get("continue", "")
        if not page:
            return


def let_go(metadata: dict[str, Any]) -> None:
    """Write the endpoint's other finalizers, unless the endpoint changed meanwhile."""
    others = [name for name in metadata["finalizers"] if name != FINALIZER]
    path = f"{RESOURCES}/namespaces/{metadata['namespace']}/webhookendpoints/{metadata['name']}"
    kept = {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}
    request("PATCH", path, {"metadata": kept})


def main(namespaces: list[str]) -> int:
    """Release every endpoint, retry those that changed meanwhile, and return the exit code."""
    released = 0
    for _ in range(ATTEMPTS):
        changed = 0
        for namespace in namespaces or [None]:
            try:
                for metadata in held(namespace):
                    try:
                        let_go(metadata)
                        released += 1
                    except HTTPError as refusal:
                        if refusal.code not in {404, 409}:
                            raise
                        changed += 1
            except HTTPError as refusal:
                if refusal.code != 404:  # without the CRDs there are no endpoints to release
                    sys.stderr.write(f"the API server refuses: {refusal.code} {refusal.reason}\n")
                    return 1
        if not changed:
            break
    sys.stdout.write(f"took the finalizer {FINALIZER} from {released} endpoints\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
