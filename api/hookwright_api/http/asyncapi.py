"""Pure: the AsyncAPI description of a project: the requests that the receivers of its webhooks get.

Source: AsyncAPI 3.0.0. The described application is a receiver, so its operations receive.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from hookwright_api.http.openapi_webhooks import SIGNATURE_HEADERS
from hookwright_crds.endpoint_fields import CLOUDEVENTS
from hookwright_crds.events import CATALOGUE, EVENT_TYPES, Channel, example, expanded
from hookwright_crds.resources import WebhookEndpoint

MAX_WEBHOOKS: Final = 100
"""Webhooks that one document describes, so that it stays below 256 KiB."""

_ABOUT: Final = (
    "Hookwright posts each event to the URL of every webhook that subscribes to its type. This document describes a "
    "receiver. Each channel is a webhook. Its address is null, because the path of a URL may be a credential: "
    "GET /v1/webhooks/{id} shows the URL."
)
_CLOUDEVENT_HEADERS: Final = {
    "ce-specversion": "1.0",
    "ce-id": "msg_01JK3V9Q4D1X7N0T5C8B",
    "ce-source": "/namespaces/acme/projects/billing",
    "ce-type": "dev.hookwright.delivered",
    "ce-time": "2026-01-31T12:00:00.000Z",
}
_NAME: Final = {"type": "string", "minLength": 1, "maxLength": 256}


def asyncapi_document(project: str, version: str, webhooks: Sequence[WebhookEndpoint]) -> dict[str, Any]:
    """Return the document, with the first `MAX_WEBHOOKS` webhooks.

    Args:
        project: its name.
        version: of Hookwright.
        webhooks: of the project, oldest first.
    """
    described = webhooks[:MAX_WEBHOOKS]
    about = _ABOUT
    if len(webhooks) > len(described):
        about += f" The project has {len(webhooks)} webhooks; this document has the oldest {len(described)}."
    return {
        "asyncapi": "3.0.0",
        "info": {"title": f"Webhooks of {project}", "version": version, "description": about},
        "defaultContentType": "application/json",
        "servers": {
            webhook.metadata.name: _server(webhook.spec.url) for webhook in described if webhook.spec.url is not None
        },
        "channels": {webhook.metadata.name: _channel(webhook) for webhook in described},
        "operations": {webhook.metadata.name: _operation(webhook) for webhook in described},
        "components": {
            "schemas": {"Headers": _headers()},
            "messages": {
                name: _message(channel, name, meaning)
                for channel, types in CATALOGUE.items()
                for name, meaning in types.items()
            },
        },
    }


def _server(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.netloc, "protocol": parts.scheme}


def _channel(webhook: WebhookEndpoint) -> dict[str, Any]:
    name, types = webhook.metadata.name, expanded(webhook.spec.events)
    form = "CloudEvents in binary mode" if webhook.spec.format == CLOUDEVENTS else "JSON"
    pulled = webhook.spec.url is None
    way = f"A consumer takes them as messages, in the form of {form}." if pulled else f"Events are sent as {form}."
    about = " ".join(filter(None, (webhook.spec.description, way)))
    return {
        "address": None,
        "title": name,
        "description": about,
        **({} if pulled else {"servers": [{"$ref": f"#/servers/{name}"}]}),
        "messages": {one: {"$ref": f"#/components/messages/{one}"} for one in EVENT_TYPES if one in types},
    }


def _operation(webhook: WebhookEndpoint) -> dict[str, Any]:
    bindings = {"bindings": {"http": {"method": "POST", "bindingVersion": "0.3.0"}}}
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{webhook.metadata.name}"},
        **(bindings if webhook.spec.url is not None else {}),
    }


def _message(channel: Channel, name: str, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "summary": meaning,
        "tags": [{"name": channel}],
        "headers": {"$ref": "#/components/schemas/Headers"},
        "payload": {
            "type": "object",
            "required": ["type", "messageId"],
            "properties": {
                "type": {"type": "string", "const": name, "description": "The event type."},
                "messageId": {**_NAME, "description": "The message that the event is about."},
                "id": {**_NAME, "description": "The id that the producer sent, if any."},
                "test": {"type": "boolean", "description": "true in a test."},
            },
            # The producer chooses the other fields.
            "additionalProperties": True,
        },
        "examples": [{"payload": example(name)}],
    }


def _headers() -> dict[str, Any]:
    signed = {
        name: {"type": "string", "description": about, "examples": [shown]}
        for name, (about, shown) in SIGNATURE_HEADERS.items()
    }
    of_cloudevents = {
        name: {"type": "string", "description": "Only of CloudEvents.", "examples": [shown]}
        for name, shown in _CLOUDEVENT_HEADERS.items()
    }
    return {"type": "object", "required": [*signed], "properties": {**signed, **of_cloudevents}}
