"""Pure: headers of a message that a consumer takes, and the context of a CloudEvent as headers.

Source: the HTTP protocol binding of CloudEvents 1.0.2, section 3.1.
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from pydantic_core import from_json

from hookwright_crds.endpoint_fields import CLOUDEVENTS, RESERVED_HEADERS
from hookwright_crds.events import CLOUDEVENT_PREFIX, OPERATIONAL_PREFIX
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed

PREFIX: Final = "ce-"
"""The beginning of the name of every such header."""

_VERSION: Final = {"ce-specversion": "1.0"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
"""The characters that a value has as they are (3.1.3.2)."""


def cloudevent_headers(endpoint: Endpoint, delivery: Claimed) -> dict[str, str]:
    """Return the headers of the binary mode, percent-encoded.

    A CloudEvent keeps the attributes that its producer sent. Another event is one of its project: its id is
    ``webhook-id``, its time is that of the acceptance.
    """
    if delivery.attributes is not None:
        attributes: dict[str, str] = from_json(delivery.attributes)
    else:
        moment = _EPOCH + timedelta(milliseconds=delivery.accepted_ms)
        attributes = {
            "id": delivery.event_id,
            "source": f"/namespaces/{endpoint.namespace}/projects/{endpoint.project}",
            "type": CLOUDEVENT_PREFIX + delivery.event_type.removeprefix(OPERATIONAL_PREFIX),
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
    return _VERSION | {PREFIX + name: quote(value, safe=_PLAIN) for name, value in attributes.items()}


def message_headers(endpoint: Endpoint, message: Claimed, at_ms: int) -> dict[str, str]:
    """Return content type, the endpoint's own headers, signatures, and the context of a CloudEvent.

    They are those of a request to a URL.

    Args:
        endpoint: with at least one signing secret.
        message: the message.
        at_ms: the time that is signed, in milliseconds since the epoch.
    """
    cloudevents = endpoint.format == CLOUDEVENTS
    own_headers = {
        name: value
        for name, value in endpoint.headers
        if name.lower() not in RESERVED_HEADERS and not (cloudevents and name.lower().startswith(PREFIX))
    }
    signatures = signature_headers(
        endpoint.secrets,
        message.event_id,
        at_ms // 1000,
        message.body,
        by_newest=endpoint.newest_signs,
        extra=endpoint.extra_signature,
    )
    headers = {"Content-Type": "application/json", **own_headers, **signatures}
    return headers | cloudevent_headers(endpoint, message) if cloudevents else headers
