"""Pure: the signatures that a receiver checks, and the signing secrets.

Two schemes sign the same bytes. ``X-Service-Signature`` is the lowercase hex HMAC-SHA256 of the body. Its key is the
secret as written (``whsec_…`` as UTF-8). An endpoint can have one more header with that key, in the form of another
sender. ``webhook-signature`` follows Standard Webhooks 1.0
(https://www.standardwebhooks.com). It covers id and time too, and its key is that of `standard_key`.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from hookwright_crds.endpoint_fields import ExtraSignature
from hookwright_crds.signing_secrets import SECRET_PREFIX, standard_key

SECRET_BYTES: Final = 32
SIGNATURE_HEADER: Final = "X-Service-Signature"
ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
STANDARD_SIGNATURE_HEADER: Final = "webhook-signature"

_CACHED_SECRETS: Final = 4096


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """Return a signing secret: ``whsec_`` and the base64 of 32 bytes taken from ``random_bytes``."""
    return SECRET_PREFIX + b64encode(random_bytes(SECRET_BYTES)).decode()


def hex_signature(secret: str, *content: bytes) -> str:
    """Return the value of ``X-Service-Signature``, equal to the output of ``openssl dgst -sha256 -hmac SECRET``."""
    mac = _keyed(secret)[0].copy()
    for part in content:
        mac.update(part)
    return mac.hexdigest()


def standard_signature(secret: str, msg_id: str, timestamp: int, body: bytes) -> str:
    """Return one value of ``webhook-signature``, ``v1,`` and the base64 of the HMAC-SHA256.

    Args:
        secret: ``whsec_`` and the base64 of the key, or another text.
        msg_id: the value of ``webhook-id``, the same over all attempts.
        timestamp: of this attempt, in seconds since the epoch.
        body: the bytes that are sent.
    """
    mac = _keyed(secret)[1].copy()
    mac.update(b"%b.%d." % (msg_id.encode(), timestamp))
    mac.update(body)
    return "v1," + b64encode(mac.digest()).decode()


def signature_headers(
    secrets: Sequence[str],
    msg_id: str,
    timestamp: int,
    body: bytes,
    *,
    by_newest: bool = False,
    extra: ExtraSignature | None = None,
) -> dict[str, str]:
    """Return the four headers that sign one attempt, and the extra one.

    During a rotation's overlap there are several secrets, the newest first. Then ``webhook-signature`` has one value
    for each secret, separated by spaces. ``X-Service-Signature`` has one value, by the oldest secret: its receivers
    know that secret, and get the new one during the overlap. ``by_newest`` makes it by the newest secret: the overlap
    of a Secret that a tenant makes has no known end. The extra header has the same signer, and in the form of Stripe
    one value for each secret.

    Raises:
        ValueError: there is no secret.
    """
    if not secrets:
        raise ValueError("signing needs at least one secret")
    signature = hex_signature(secrets[0 if by_newest else -1], body)
    headers = {
        SIGNATURE_HEADER: signature,
        ID_HEADER: msg_id,
        TIMESTAMP_HEADER: str(timestamp),
        STANDARD_SIGNATURE_HEADER: " ".join(standard_signature(secret, msg_id, timestamp, body) for secret in secrets),
    }
    match extra:
        case ExtraSignature(form="github"):
            headers[extra.header] = f"sha256={signature}"
        case ExtraSignature(form="stripe"):
            values = [f"v1={hex_signature(secret, b'%d.' % timestamp, body)}" for secret in secrets]
            headers[extra.header] = ",".join([f"t={timestamp}", *values])
        case ExtraSignature():
            headers[extra.header] = signature
    return headers


# A copy of a keyed HMAC costs 0.8 µs. A new one costs 1.2 µs and the decoding. Measured with 300-byte bodies.
@lru_cache(maxsize=_CACHED_SECRETS)
def _keyed(secret: str) -> tuple[hmac.HMAC, hmac.HMAC]:
    """Return HMACs for both schemes that contain only the key; callers copy them before use."""
    return hmac.new(secret.encode(), digestmod="sha256"), hmac.new(standard_key(secret), digestmod="sha256")
