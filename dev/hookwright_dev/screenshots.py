"""Screenshots of the console in docs/screenshots, from the real pages of a running installation with example data."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import httpx
from playwright.sync_api import Browser, Page

from hookwright_api.console.navigation import ENDPOINT_TABS, endpoint_path
from hookwright_dev.browser import chromium
from hookwright_dev.cluster.stack import EMAIL, ORGANIZATION, PASSWORD, ROOT, console_hint, running
from hookwright_dev.polling import eventually

FOLDER: Final = ROOT / "docs" / "screenshots"
THEMES: Final = (("light", 1120, 700), ("dark", 1120, 700), ("phone", 390, 780))
"""The name, width and height of each form of a screenshot."""
_SETTINGS: Final = {
    "HOOKWRIGHT_RETRY_SCHEDULE": "1s",
    "HOOKWRIGHT_STATUS_INTERVAL": "1",
    "HOOKWRIGHT_RATE_LIMIT_IP": "0",
    "HOOKWRIGHT_RATE_LIMIT_ORGANIZATION": "0",
}
_ENDPOINT_PAGES: Final = ("deliveries", "verify", "secret")
_ENDPOINTS: Final = (
    {"url": "/orders", "events": ["delivered", "bounced"], "description": "Order service"},
    {
        "url": "/crm",
        "events": ["delivered", "wa_*", "sms_*"],
        "description": "Customer records",
        "labels": {"team": "crm"},
    },
    {"url": "/archive", "events": ["*"], "description": "Archive", "enabled": False},
    {"pull": {"lease": "1m"}, "events": ["opened", "clicked"], "description": "Reports behind the firewall"},
)
_FAILING: Final = "/crm"


@contextmanager
def receiving() -> Iterator[str]:
    """Run a receiver inside the context, of which one path fails."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            failing = self.path == _FAILING
            body = b'{"error": "the table customers is locked"}' if failing else b'{"ok": true}'
            self.send_response(503 if failing else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _fill(client: httpx.Client, receiver: str) -> dict[str, str]:
    """Make endpoints, keys, deliveries and messages, and return the paths of pages that show them, by name."""

    def token() -> str:
        answer = client.post("/v1/auth/login", json={"email": EMAIL, "password": PASSWORD})
        return str(answer.json()["token"]) if answer.is_success else ""

    client.headers["Authorization"] = f"Bearer {eventually(token, 'login')}"
    eventually(lambda: client.get("/v1/projects/billing").is_success, "project")
    endpoints = [
        client.post(
            "/v1/webhooks?project=billing",
            json={**fields, **({"url": receiver + str(fields["url"])} if "url" in fields else {})},
        ).raise_for_status()
        for fields in _ENDPOINTS
    ]
    keys = [
        client.post("/v1/projects/billing/keys", json=body).raise_for_status().json()["key"]
        for body in (
            {"name": "Order service", "scopes": ["send"]},
            {"name": "Terraform", "scopes": ["manage", "read"]},
            {"name": "Reports", "scopes": ["pull"]},
        )
    ]
    session = {"Authorization": client.headers.pop("Authorization")}
    for number in range(18):
        kind = "opened" if number % 3 == 2 else "bounced" if number % 4 else "delivered"
        event = {"type": kind, "messageId": f"m-{1000 + number}", "recipient": "ada@example.com"}
        client.post("/v1/events", json=event, headers={"X-Service-Key": keys[0]}).raise_for_status()
    name, inbox = (str(endpoints[number].json()["id"]) for number in (1, 3))
    path = f"/v1/webhooks/{inbox}/messages?limit=2&wait=10s&lease=1h"
    client.get(path, headers={"X-Service-Key": keys[2]}).raise_for_status()
    client.headers.update(session)

    def settled() -> bool:
        document = client.get(f"/v1/webhooks/{name}?project=billing").json()
        return bool(document["deliveries"]["failed"] and document["status"] == "failing")

    eventually(settled, "failed deliveries")
    failures = client.get(f"/v1/webhooks/{name}/deliveries?project=billing&status=failed").json()["data"]
    endpoint, delivery = endpoint_path("billing", name), endpoint_path("billing", name, "deliveries", failures[0]["id"])
    return {
        "endpoint": endpoint,
        **{tab: endpoint_path("billing", name, tab) for tab in ENDPOINT_TABS if tab in _ENDPOINT_PAGES},
        "delivery": delivery,
        "attempts": f"{delivery}#attempts-title",
        "pull": endpoint_path("billing", inbox),
    }


def _log_in(page: Page, url: str) -> None:
    page.goto(f"{url}/console/login")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()


def _take(browser: Browser, url: str, paths: dict[str, str]) -> None:
    for theme, width, height in THEMES:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if theme == "dark" else "light"
        )
        page = context.new_page()
        _log_in(page, url)
        for name, path in paths.items():
            page.goto(f"{url}{path}")
            # The fragments that the page loads itself; a page of the live log never becomes idle.
            page.wait_for_load_state("load")
            page.locator("[hx-trigger=load]").wait_for(state="detached")
            page.screenshot(path=FOLDER / f"{name}-{theme}.png", animations="disabled")
        context.close()


def main() -> int:
    """Write every screenshot, and return the exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    project = {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "billing", "namespace": ORGANIZATION},
        "spec": {"displayName": "Billing"},
    }
    with receiving() as receiver, running(_SETTINGS) as stack:
        console_hint(stack)
        stack.plane.kubectl("create", "namespace", ORGANIZATION)
        stack.plane.kubectl("apply", "-f", "-", stdin=json.dumps(project))
        with httpx.Client(base_url=stack.api.url, trust_env=False, timeout=30.0) as client:
            pages = _fill(client, receiver)
        paths = {
            "projects": "/console/",
            "project": "/console/projects/billing",
            "keys": "/console/projects/billing/keys",
            "start": "/console/projects/billing/start",
            "new-endpoint": "/console/projects/billing/new-endpoint",
            **pages,
        }
        with chromium() as browser:
            _take(browser, stack.api.url, paths)
    for path in sorted(FOLDER.glob("*.png")):
        print(
            f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}: {path.stat().st_size} bytes"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
