"""Pure: check of a request that a person pastes, against a signing secret. Values are compared in constant time."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "whsec_"
STANDARD: Final = "webhook-signature"
SERVICE: Final = "x-service-signature"
_MOST_LINES: Final = 1000
_MOST_SIGNATURES: Final = 16
"""Values of `STANDARD` that are compared; a rotation has two."""
TOLERANCE_SECONDS: Final = 300
"""The age from which receivers refuse a request."""


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
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
    found: dict[str, str] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip().strip('"').lower(), value.strip().strip('",').strip())
    return found


def check_signatures(
    secret: str, headers: Mapping[str, str], body: str, *, previous_until: str | None = None
) -> list[SignatureVerdict]:
    """Return the results for both signature headers.

    A browser changes the ends of lines in a pasted text, and people often copy one end of line too many. So a body
    that differs only in these is found, and the sentence says it.

    Args:
        secret: the signing secret, ``whsec_`` and base64.
        headers: by lower-case name.
        body: as the browser sent it.
        previous_until: until when a replaced secret signs `SERVICE`, None if none does.
    """
    msg_id, written = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    prefix = f"{msg_id}.{written}.".encode()
    standard_key = _standard_key(secret)
    given = headers.get(STANDARD, "").split(maxsplit=_MOST_SIGNATURES)[:_MOST_SIGNATURES]

    def standard(content: bytes) -> bool:
        expected = "v1," + b64encode(hmac.digest(standard_key, prefix + content, "sha256")).decode()
        return _matches(given, expected)

    def service(content: bytes) -> bool:
        return _matches([headers.get(SERVICE, "")], hmac.digest(secret.encode(), content, "sha256").hex())

    bodies = _possible_bodies(body)
    found = [_verdict(STANDARD, bool(given), [note for note, content in bodies if standard(content)])]
    if given and not (msg_id and written):
        sentence = "It covers webhook-id and webhook-timestamp too. Paste these two headers."
        found = [SignatureVerdict(STANDARD, "bad", sentence)]
    verdict = _verdict(SERVICE, SERVICE in headers, [note for note, content in bodies if service(content)])
    if verdict.state == "bad" and previous_until:
        sentence = f"It cannot be checked before {previous_until}: until then the replaced secret makes it."
        verdict = SignatureVerdict(SERVICE, "unknown", sentence)
    return [*found, verdict]


def age_sentence(headers: Mapping[str, str], now: float) -> str:
    """Return how old the pasted request is, and what receivers make of that; '' if it has no time."""
    written = headers.get("webhook-timestamp", "")
    if not (written.isascii() and written.isdigit() and len(written) <= len(str(2**40))):
        return ""
    age = round(now - int(written))
    shown = f"{abs(age)} s" if abs(age) < 600 else f"{abs(age) // 60:,} min"
    direction = "ago" if age >= 0 else "in the future"
    if abs(age) <= TOLERANCE_SECONDS:
        return f"It was signed {shown} {direction}; receivers accept it."
    return f"It was signed {shown} {direction}. Receivers refuse it now, because it is older than 5 minutes."


def _verdict(header: str, present: bool, matching: Sequence[str]) -> SignatureVerdict:  # noqa: FBT001
    if not present:
        return SignatureVerdict(header, "absent", "The pasted headers do not have it.")
    if not matching:
        return SignatureVerdict(header, "bad", "It does not match this body and the secret of this endpoint.")
    return SignatureVerdict(header, "good", f"It matches.{' ' if matching[0] else ''}{matching[0]}")


def _possible_bodies(body: str) -> list[tuple[str, bytes]]:
    """Return the texts that a person may mean, each with a note; the first is the most likely."""
    unix = body.replace("\r\n", "\n")
    stripped = unix.strip("\n")
    candidates = {
        unix: "",
        unix.replace("\n", "\r\n"): "",
        stripped: "The pasted body has an empty line that was not sent.",
        stripped.replace("\n", "\r\n"): "The pasted body has an empty line that was not sent.",
        f"{stripped}\n": "The sent body ends with a line feed that the pasted one lacks.",
    }
    return [(note, text.encode()) for text, note in candidates.items()]


def _matches(values: Sequence[str], expected: str) -> bool:
    return any([hmac.compare_digest(value.encode(), expected.encode()) for value in values])  # noqa: C419 - all of them


def _standard_key(secret: str) -> bytes:
    try:
        return b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        # Not chained: the text of a decoding error may quote its input.
        pass
    raise ValueError("the signing secret is not base64")
