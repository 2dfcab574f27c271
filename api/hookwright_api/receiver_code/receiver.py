"""A receiver of webhooks in Python 3.9 or newer, without a library.

Start it with ``WEBHOOK_SECRET=whsec_... python3 receiver.py``.
"""

import base64
import hmac
import os
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE = 300  # seconds


def known(secret: str) -> str:
    """Return the secret; raise ValueError if it is missing, because anybody can sign with an empty one."""
    if not secret.startswith("whsec_"):
        raise ValueError("the secret must begin with whsec_")
    return secret


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check ``webhook-signature`` (Standard Webhooks); raise ValueError to refuse. Header names are in lower case."""
    key = base64.b64decode(known(secret)[len("whsec_") :])
    timestamp = headers.get("webhook-timestamp", "")
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
    # During a rotation the header has one value for each secret. compare_digest runs in constant time.
    given = headers.get("webhook-signature", "").split()
    if not any(hmac.compare_digest(value.encode(), expected) for value in given):
        raise ValueError("wrong signature")
    if abs(time.time() - int(timestamp)) > TOLERANCE:
        raise ValueError("the request is too old")


def verify_service_signature(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Check ``X-Service-Signature``, which does not cover the time; raise ValueError to refuse."""
    expected = hmac.digest(known(secret).encode(), body, "sha256").hex()
    if not hmac.compare_digest(headers.get("x-service-signature", "").encode(), expected.encode()):
        raise ValueError("wrong signature")


# --- a server that uses one of the two ---


class WebhookHandler(BaseHTTPRequestHandler):
    """Handler of one request."""

    def do_POST(self) -> None:
        """Verify and store the event, and answer."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        check = verify_service_signature if self.path == "/service-signature" else verify
        try:
            check(os.environ["WEBHOOK_SECRET"], {name.lower(): value for name, value in self.headers.items()}, body)
        except ValueError as error:
            self.send_error(401, str(error))
            return
        # Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
        print("accepted", self.headers["webhook-id"], flush=True)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), WebhookHandler).serve_forever()
