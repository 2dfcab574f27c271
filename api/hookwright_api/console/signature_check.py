"""Pure: check of a request that a person pastes, against a signing secret. Values are compared in constant time."""

import hmac
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hookwright_crds.signing_secrets import standard_key

STANDARD: Final = "webhook-signature"
SERVICE: Final = "x-service-signature"
_MOST_LINES: Final = 1000
_MOST_SIGNATURES: Final = 16
"""Values of `STANDARD` that are compared; a rotation has two."""
TOLERANCE_SECONDS: Final = 300
"""The age from which receivers refuse a request."""


class SignatureVerdict(NamedTuple):
    """The result for one header.

    Attributes:
        header: its name.
        state: ``good``, ``bad``, ``absent``, or ``unknown``.
        sentence: for people.
    """

    header: str
    state: str
    sentence: str


def pasted_headers(text: str) -> dict[str, str]:
    """Return the headers of the first pasted lines ``name: value``, with names in lower case.

    Other lines have no effect.
    """
    headers: dict[str, str] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().strip('"').lower(), value.strip().strip('",').strip())
    return headers


def check_signatures(
    secret: str, headers: Mapping[str, str], body: str, *, previous_until: str | None = None
) -> list[SignatureVerdict]:
    """Return the results for both signature headers.

    A browser changes the ends of lines in a pasted text, and people often copy one end of line too many. So a body
    that differs only in these is found, and the sentence says it.

    Args:
        secret: the signing secret.
        headers: by lower-case name.
        body: as the browser sent it.
        previous_until: until when a replaced secret signs `SERVICE`, None if none does.
    """
    msg_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    prefix, key = f"{msg_id}.{timestamp}.".encode(), standard_key(secret)
    bodies = _possible_bodies(body)
    signatures = headers.get(STANDARD, "").split(maxsplit=_MOST_SIGNATURES)[:_MOST_SIGNATURES]
    digests = {hmac.digest(key, prefix + content, "sha256"): note for content, note in bodies.items()}
    standard = _verdict(
        STANDARD, signatures, {f"v1,{b64encode(digest).decode()}": note for digest, note in digests.items()}
    )
    if signatures and not (msg_id and timestamp):
        sentence = "It covers webhook-id and webhook-timestamp too. Paste these two headers."
        standard = SignatureVerdict(STANDARD, "bad", sentence)
    expected = {hmac.digest(secret.encode(), content, "sha256").hex(): note for content, note in bodies.items()}
    service = _verdict(SERVICE, [headers[SERVICE]] if SERVICE in headers else [], expected)
    if service.state == "bad" and previous_until:
        sentence = f"It cannot be checked before {previous_until}: until then the replaced secret makes it."
        service = SignatureVerdict(SERVICE, "unknown", sentence)
    return [standard, service]


def age_sentence(headers: Mapping[str, str], now: float) -> str:
    """Return how old the pasted request is, and what receivers make of that; '' if it has no time."""
    timestamp = headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= len(str(2**40))):
        return ""
    age = round(now - int(timestamp))
    length = f"{abs(age)} s" if abs(age) < 600 else f"{abs(age) // 60:,} min"
    direction = "ago" if age >= 0 else "in the future"
    if abs(age) <= TOLERANCE_SECONDS:
        return f"It was signed {length} {direction}; receivers accept it."
    return f"It was signed {length} {direction}. Receivers refuse it now, because it is older than 5 minutes."


def _verdict(header: str, values: Sequence[str], expected: Mapping[str, str]) -> SignatureVerdict:
    """Return the result for the values of a header; each expected value has a note about its body."""
    if not values:
        return SignatureVerdict(header, "absent", "The pasted headers do not have it.")
    for signature, note in expected.items():
        if any([hmac.compare_digest(value.encode(), signature.encode()) for value in values]):  # noqa: C419 - all of them
            return SignatureVerdict(header, "good", f"It matches. {note}".strip())
    return SignatureVerdict(header, "bad", "It does not match this body and the secret of this endpoint.")


def _possible_bodies(body: str) -> dict[bytes, str]:
    """Return the bodies that a person may mean, each with a note; the first is the most likely."""
    unix = body.replace("\r\n", "\n")
    content = unix.strip("\n")
    empty_line = "The pasted body has an empty line that was not sent."
    return {
        unix.encode(): "",
        unix.replace("\n", "\r\n").encode(): "",
        content.encode(): empty_line,
        content.replace("\n", "\r\n").encode(): empty_line,
        f"{content}\n".encode(): "The sent body ends with a line feed that the pasted one lacks.",
    }
