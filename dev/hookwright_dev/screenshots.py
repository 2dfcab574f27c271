"""Screenshots of the console for the documentation, from the real pages of an installation with example data."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

import httpx
from playwright.sync_api import Browser

from hookwright_api.console.navigation import endpoint_path
from hookwright_dev.browser import chromium
from hookwright_dev.cluster.stack import EMAIL, ORGANIZATION, PASSWORD, ROOT, console_hint, running
from hookwright_dev.polling import eventually

FOLDER: Final = ROOT / "docs" / "screenshots"
PICTURES: Final = (("project", "light"), ("project", "dark"), ("endpoint", "light"))
"""The page and the theme of each screenshot."""
_SETTINGS: Final = {
    "HOOKWRIGHT_RETRY_SCHEDULE": "1s",
    "HOOKWRIGHT_STATUS_INTERVAL": "1",
    "HOOKWRIGHT_RATE_LIMIT_IP": "0",
    "HOOKWRIGHT_RATE_LIMIT_ORGANIZATION": "0",
}
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


def _fill(client: httpx.Client, receiver: str) -> str:
    """Make endpoints and deliveries; return the id of an endpoint whose deliveries fail."""

    def token() -> str:
        answer = client.post("/v1/auth/login", json={"email": EMAIL, "password": PASSWORD})
        return str(answer.json()["token"]) if answer.is_success else ""

    session = {"Authorization": f"Bearer {eventually(token, 'login')}"}
    eventually(lambda: client.get("/v1/projects/billing", headers=session).is_success, "project")
    ids = []
    for fields in _ENDPOINTS:
        url = {"url": receiver + str(fields["url"])} if "url" in fields else {}
        answer = client.post("/v1/webhooks?project=billing", json={**fields, **url}, headers=session)
        ids.append(str(answer.raise_for_status().json()["id"]))
    answer = client.post("/v1/projects/billing/keys", json={"name": "Order service"}, headers=session)
    key = {"X-Service-Key": answer.raise_for_status().json()["key"]}
    for number in range(18):
        kind = "opened" if number % 3 == 2 else "bounced" if number % 4 else "delivered"
        event = {"type": kind, "messageId": f"m-{1000 + number}", "recipient": "ada@example.com"}
        client.post("/v1/events", json=event, headers=key).raise_for_status()
    failing = ids[[fields.get("url") for fields in _ENDPOINTS].index(_FAILING)]

    def settled() -> bool:
        document = client.get(f"/v1/webhooks/{failing}", headers=key).json()
        return bool(document["deliveries"]["failed"] and document["status"] == "failing")

    eventually(settled, "failed deliveries")
    return failing


def _take(browser: Browser, url: str, paths: dict[str, str]) -> None:
    for name, theme in PICTURES:
        context = browser.new_context(
            viewport={"width": 1120, "height": 700}, color_scheme="dark" if theme == "dark" else "light"
        )
        page = context.new_page()
        page.goto(f"{url}/console/login")
        page.get_by_label("Email").fill(EMAIL)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("button", name="Log out").wait_for()
        page.goto(f"{url}{paths[name]}")
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
            failing = _fill(client, receiver)
        paths = {"project": "/console/projects/billing", "endpoint": endpoint_path("billing", failing)}
        with chromium() as browser:
            _take(browser, stack.api.url, paths)
    return 0


if __name__ == "__main__":
    sys.exit(main())
