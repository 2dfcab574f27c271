"""Pure: the headers of a message that a consumer takes, which are those of a request to a URL."""

from hookwright_crds.endpoint_fields import CLOUDEVENTS, RESERVED_HEADERS
from hookwright_operator.delivery.http.cloudevent_headers import PREFIX, cloudevent_headers
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed


def message_headers(endpoint: Endpoint, message: Claimed, at_ms: int) -> dict[str, str]:
    """Return content type, the endpoint's own headers, signatures, and the context of a CloudEvent.

    Args:
        endpoint: with at least one signing secret.
        message: the message.
        at_ms: the time that is signed, in milliseconds since the epoch.
    """
    cloudevents = endpoint.format == CLOUDEVENTS
    own = {
        name: value
        for name, value in endpoint.headers
        if name.lower() not in RESERVED_HEADERS and not (cloudevents and name.lower().startswith(PREFIX))
    }
    signed = signature_headers(endpoint.secrets, message.event_id, at_ms // 1000, message.body)
    headers = {"Content-Type": "application/json", **own, **signed}
    return headers | cloudevent_headers(endpoint, message) if cloudevents else headers
