"""Pure: the part of the OpenAPI description for receivers: the request that an endpoint gets for each event."""

from typing import Any, Final

_STANDARD: Final = (
    "Standard Webhooks 1.0: `v1,` and the base64 of the HMAC-SHA256 of id, timestamp and body, joined by periods. "
    "Its key is the decoded base64 after `whsec_`. During a rotation it has one value for each secret, separated by "
    "spaces."
)
SIGNATURE_HEADERS: Final = {
    "webhook-id": ("The event's id, equal in every attempt: use it to ignore repetitions.", "msg_01JK3V9Q4D1X7N0T5C8B"),
    "webhook-timestamp": ("The time of this attempt, in seconds since the epoch.", "1769860800"),
    "webhook-signature": (_STANDARD, "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
    "X-Service-Signature": (
        "Lowercase hex HMAC-SHA256 of the body. Its key is the whole secret, with `whsec_`; in an overlap the old one.",
        "b7c8e0a1d2f3445566778899aabbccddeeff00112233445566778899aabbccdd",
    ),
}
"""The meaning of each header that signs a request, and an example."""


def webhooks() -> dict[str, Any]:
    """Return the section ``webhooks``: the one request that Hookwright sends to every endpoint."""
    return {
        "event": {
            "post": {
                "operationId": "receiveEvent",
                "summary": "Receive Event",
                "description": "Hookwright posts each event to the URL of every endpoint that subscribes to its type. "
                "A 2xx answer within the endpoint's timeout ends the delivery. Every other answer is retried.",
                # Not "webhooks": generators of clients make one class for each tag, and this one would replace it.
                "tags": ["receivers"],
                "security": [],
                "parameters": [
                    {
                        "name": name,
                        "in": "header",
                        "required": True,
                        "description": description,
                        "schema": {"type": "string"},
                        "example": example,
                    }
                    for name, (description, example) in SIGNATURE_HEADERS.items()
                ],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}},
                },
                "responses": {
                    "2XX": {"description": "The event is received. The delivery log keeps the beginning of the body."},
                    "4XX": {"description": "The attempt failed and is retried; 429 may have Retry-After."},
                    "5XX": {"description": "The attempt failed and is retried; 503 may have Retry-After."},
                },
            }
        }
    }
