"""Pure: the request of an earlier attempt, computed again from what the store recorded of it.

The store has the body and the time that was signed. It also has fingerprints of the signing secrets and of the constant
part of the head. If a fingerprint differs from that of the endpoint now, the values that depend on it are not known.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from hookwright_crds.endpoint_fields import CLOUDEVENTS
from hookwright_operator.delivery.http.message_headers import cloudevent_headers
from hookwright_operator.delivery.http.signatures import ID_HEADER, TIMESTAMP_HEADER, signature_headers
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Attempt, Claimed

MASK: Final = "(hidden)"
"""Stands for the value of a header that may contain a credential."""
_FINGERPRINT_BYTES: Final = 6


class SentRequest(NamedTuple):
    """The headers of a request.

    Attributes:
        headers: by name, in the order in which they were sent. The endpoint's own headers have hidden values.
        signature_known: whether the secrets that signed the request are those of the endpoint now. If not, the headers
            lack the signatures.
        endpoint_changed: whether the URL, a constant header or the extra signature has changed since. If so, the
            headers lack all of them.
    """

    headers: Mapping[str, str]
    signature_known: bool
    endpoint_changed: bool


def fingerprints(endpoint: Endpoint, head: bytes) -> str:
    """Return the fingerprints of its signing secrets and of the constant part of its head, separated by a space."""
    return f"{_fingerprint_of(endpoint.secrets)} {_fingerprint_of_head(endpoint, head)}"


def _fingerprint_of(secrets: Sequence[str]) -> str:
    return _fingerprint("\n".join(secrets).encode())


def _fingerprint_of_head(endpoint: Endpoint, head: bytes) -> str:
    extra = endpoint.extra_signature
    return _fingerprint(head if extra is None else head + extra.model_dump_json().encode())


def _fingerprint(content: bytes) -> str:
    return blake2b(content, digest_size=_FINGERPRINT_BYTES).hexdigest()


def sent_request(head: bytes | None, endpoint: Endpoint, delivery: Claimed, attempt: Attempt) -> SentRequest | None:
    """Compute a request again; ``head`` is the constant part of the head now, None if no request can be prepared.

    Returns:
        None if the store has no record of the request.
    """
    if attempt.request is None:
        return None
    timestamp, of_secrets, of_head = attempt.request.split(" ")
    secrets = _with_fingerprint(endpoint.secrets, of_secrets)
    event_headers = {ID_HEADER: delivery.event_id, TIMESTAMP_HEADER: timestamp}
    has_changed = head is None or of_head != _fingerprint_of_head(endpoint, head)
    if secrets:
        event_headers = signature_headers(
            secrets, delivery.event_id, int(timestamp), delivery.body,
            by_newest=endpoint.newest_signs, extra=None if has_changed else endpoint.extra_signature,
        )  # fmt: skip
    headers = {} if has_changed or head is None else _shown(head, endpoint)
    if not has_changed and endpoint.format == CLOUDEVENTS:
        event_headers |= cloudevent_headers(endpoint, delivery)
    return SentRequest(
        {**headers, **event_headers, "Content-Length": str(len(delivery.body))},
        signature_known=bool(secrets),
        endpoint_changed=has_changed,
    )


def _with_fingerprint(secrets: Sequence[str], fingerprint: str) -> Sequence[str]:
    """Return the secrets that have a fingerprint: all, or a part of them if a rotation began since; else none."""
    parts = [secrets[begin:end] for begin in range(len(secrets)) for end in range(begin + 1, len(secrets) + 1)]
    return next((part for part in parts if _fingerprint_of(part) == fingerprint), ())


def _shown(head: bytes, endpoint: Endpoint) -> dict[str, str]:
    """Return the constant headers, with the values of the endpoint's own headers hidden."""
    own_names = {name.lower() for name, _ in endpoint.headers}
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:] if line]
    return {name: MASK if name.lower() in own_names else value for name, _, value in lines}
