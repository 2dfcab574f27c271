"""How receivers of other senders verify a request, by the senders' published algorithms.

Sources: GitHub, "Validating webhook deliveries"; Stripe, "Verify webhook signatures manually".
"""

import hashlib
import hmac
import time


def verify_github(body: bytes, secret: str, header: str) -> None:
    """Verify ``X-Hub-Signature-256``."""
    expected = "sha256=" + hmac.new(secret.encode(), msg=body, digestmod=hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, header):
        raise ValueError("the signature of GitHub does not match")


def verify_stripe(body: bytes, secret: str, header: str, *, tolerance: int = 300) -> None:
    """Verify ``Stripe-Signature``: any of its ``v1`` values; ``tolerance`` is the greatest age in seconds."""
    items = [item.split("=", 1) for item in header.split(",")]
    [timestamp] = [value for name, value in items if name == "t"]
    values = [value for name, value in items if name == "v1"]
    expected = hmac.new(secret.encode(), f"{timestamp}.{body.decode()}".encode(), hashlib.sha256).hexdigest()
    if not any([hmac.compare_digest(expected, value) for value in values]):  # noqa: C419 - all of them
        raise ValueError("no signature of Stripe matches")
    if int(timestamp) < time.time() - tolerance:
        raise ValueError("the signature of Stripe is too old")


def verify_hex(body: bytes, secret: str, header: str) -> None:
    """Verify a bare digest."""
    if not hmac.compare_digest(hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(), header):
        raise ValueError("the digest does not match")
