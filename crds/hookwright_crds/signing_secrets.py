"""Pure: the forms of a signing secret, and its key in Standard Webhooks (https://www.standardwebhooks.com)."""

from base64 import b64decode
from contextlib import suppress
from typing import Final, Literal

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the scheme's public prefix
SIGNING_LABEL: Final = "hookwright.dev/signing-secret"
"""The label, with the value ``true``, of a Secret whose owner offers a signing secret of another form."""
_LONGEST_RAW: Final = 512

Encoding = Literal["whsec", "raw"]


def valid_secret(text: str, encoding: Encoding = "whsec") -> bool:
    """Return whether a text is a signing secret.

    With ``whsec`` it is ``whsec_`` and base64 of 24 to 64 bytes (Standard Webhooks), with ``raw`` any short text.
    """
    if encoding == "raw":
        return 0 < len(text) <= _LONGEST_RAW and text.isprintable()
    try:
        return text.startswith(SECRET_PREFIX) and 24 <= len(b64decode(text[6:], validate=True)) <= 64
    except ValueError:
        return False


def standard_key(secret: str) -> bytes:
    """Return the key of ``webhook-signature``: the decoded base64 after ``whsec_``, else the secret as UTF-8."""
    if secret.startswith(SECRET_PREFIX):
        with suppress(ValueError):
            return b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    return secret.encode()
