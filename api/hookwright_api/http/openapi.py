"""The OpenAPI description: what all routes share, such as credentials and refusals, and a delivery."""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import FastAPI

from hookwright_api.auth.callers import KEY_HEADER
from hookwright_crds.documents.event_bodies import events_schemas
from hookwright_crds.permissions import Credential, Permission
from hookwright_runtime.problems import MEDIA_TYPE, TITLES, TYPE_BASE, Code

EXAMPLES: Final = Path(__file__).with_name("openapi_examples.json")
"""By ``<operationId> <status>``: the example of a successful answer, or the name of the entry that has the same one.

A test compares the names of their fields with the answers of the running service. The catalogue of event types has
none, because Spectral reports its field ``example`` as a fault of the description.
"""

_SCHEMES: Final[dict[str, Any]] = {
    "ServiceKey": {
        "type": "apiKey",
        "in": "header",
        "name": KEY_HEADER,
        "description": "An API key, created by POST /v1/projects/{project}/keys or declared as an ApiKey. It gives the "
        "organization and project.",
    },
    "Session": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A session token from POST /v1/auth/login.",
    },
}
_SCHEME_OF: Final = {Credential.KEY: "ServiceKey", Credential.SESSION: "Session"}

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Problem",
    "description": "The problem (RFC 9457).",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": "The URL of the code's description."},
        "title": {"type": "string", "description": "The phrase of the status."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "code": {
            "type": "string",
            "description": "The kind of the problem. A later version may add codes, so a client treats an unknown one "
            "like its status.",
            "examples": [*Code],
        },
        "detail": {"type": "string", "description": "The cause of this problem, and the correct form."},
        "errors": {
            "type": "array",
            "description": "Each fault of a 422, of the 409 event_id_reused, and of a 413 for one event.",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "trace_id": {
            "type": "string",
            "description": "Only of a 500: the request's id, with which the API's log has details.",
        },
    },
    "example": {
        "type": f"{TYPE_BASE}{Code.NOT_FOUND}",
        "title": "Not Found",
        "status": 404,
        "code": Code.NOT_FOUND,
        "detail": "the webhook does not exist",
    },
}

_HEADERS: Final[dict[str, Any]] = {
    "X-RateLimit-Limit": {
        "description": "Requests allowed in 60 seconds by the nearer limit: that of this address, or that of this "
        "organization. Absent if the installation has disabled both.",
        "schema": {"type": "integer"},
    },
    "X-RateLimit-Remaining": {"description": "How many more requests are allowed now.", "schema": {"type": "integer"}},
    "X-Request-Id": {
        "description": "The request's id in the logs: the value of this header in the request (1 to 128 letters, "
        "digits and ._~:/+=@-), otherwise a new id.",
        "schema": {"type": "string"},
    },
    "X-RateLimit-Reset": {
        "description": "When the oldest counted request leaves the window, in seconds since the epoch.",
        "schema": {"type": "integer"},
    },
    "RateLimit-Policy": {
        "description": 'Every limit that counts this request, such as `"ip";q=100;w=60`: q requests in w seconds.',
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": 'The state of each of these limits, such as `"ip";r=99;t=60`: r requests remain; in t seconds '
        "the oldest counted one leaves the window.",
        "schema": {"type": "string"},
    },
}
_ANSWER_HEADERS: Final[dict[str, Any]] = {
    "ETag": {
        "description": "The state of the webhook's fields and labels, for If-Match of a PATCH.",
        "schema": {"type": "string"},
        "example": '"48213.5b9c1e07a2d4"',
    },
    "Location": {
        "description": "The path of the new object; for a key, the path of the project's keys.",
        "schema": {"type": "string"},
        "example": "/v1/webhooks/wh-3k9x0q2m7a5d",
    },
}
"""Headers that only some answers have; a route names them with `sends`."""
CONTACT: Final = {"name": "Hookwright", "url": "https://hookwright.dev"}
LICENSE: Final = {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"}
SERVERS: Final[list[dict[str, Any]]] = [
    {"url": "/", "description": "The installation that serves this description."},
    {
        "url": "https://{host}",
        "description": "Any installation.",
        "variables": {"host": {"default": "hookwright.example.com", "description": "The host of its API."}},
    },
]
TAGS: Final[list[dict[str, Any]]] = [
    {"name": "auth", "description": "Log in, and show the session."},
    {"name": "projects", "description": "Projects of an organization."},
    {"name": "keys", "description": "API keys of a project; a session creates and revokes them."},
    {"name": "webhooks", "description": "Endpoints of a project."},
    {"name": "deliveries", "description": "The delivery log, and retries by hand."},
    {"name": "messages", "description": "Messages of endpoints with pull, which consumers take."},
    {"name": "replays", "description": "Deliveries of a time range that are sent again."},
    {"name": "statistics", "description": "Numbers and latencies of deliveries by time."},
    {"name": "events", "description": "Events to deliver."},
    {"name": "receivers", "description": "The request that a receiver gets for each event."},
]

_MESSAGES: Final = re.compile(r"/v1/webhooks/[^/]+/messages")
_RETRY_AFTER: Final = {"description": "Seconds to wait before a retry.", "schema": {"type": "integer"}}
_CHALLENGE: Final = {"description": "How to authenticate.", "schema": {"type": "string"}}

_STANDARD: Final = (
    "Standard Webhooks 1.0: `v1,` and the base64 of the HMAC-SHA256 of id, timestamp and body, joined by periods. "
    "Its key is the decoded base64 after `whsec_`. During a rotation it has one value for each secret, separated by "
    "spaces."
)
_SIGNATURE_HEADERS: Final = {
    "webhook-id": ("The event's id, equal in every attempt: use it to ignore repetitions.", "msg_01JK3V9Q4D1X7N0T5C8B"),
    "webhook-timestamp": ("The time of this attempt, in seconds since the epoch.", "1769860800"),
    "webhook-signature": (_STANDARD, "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
    "X-Service-Signature": (
        "Lowercase hex HMAC-SHA256 of the body. Its key is the whole secret, with `whsec_`; in an overlap the old one.",
        "b7c8e0a1d2f3445566778899aabbccddeeff00112233445566778899aabbccdd",
    ),
}
"""The meaning of each header that signs a request, and an example."""


_MEANINGS: Final = {
    400: "The body is not strict JSON, or two credentials were sent.",
    401: "The credential is missing, unknown, revoked or expired.",
    404: "The object does not exist, or it belongs to another project.",
    405: "The path does not accept this method.",
    408: "The body took too long.",
    409: "The request contradicts the state of the object.",
    412: "If-Match has the ETag of another state.",
    413: "The body is too large.",
    415: "The body has another content type.",
    422: "The request is not valid; errors name each field.",
    429: "A rate limit is used up.",
    500: "An error of the service.",
    503: "A needed service is unavailable. `detail` says that nothing was done, or that the result is not known.",
}


def route_options(
    path: str, *, methods: Collection[str], permission: Permission, body_limit: int
) -> tuple[dict[int | str, dict[str, Any]], dict[str, Any]]:
    """Return the refusals that a route can answer with, and the extensions of its operation, which name its permission.

    Extensions name the scope of a key and the least role of a user. A security requirement may have them too, but only
    OAuth declares scopes, so linters report others as unknown.
    """
    accepts = permission.accepts
    statuses = {400, 422, 429, 500, 503}
    if accepts:
        statuses |= {401, 403}
    if "{" in path or accepts:
        statuses.add(404)
    if "POST" in methods:
        statuses |= {408, 409, 413, 415}
    if "DELETE" in methods or path.endswith("/messages"):
        # A webhook with a url has no messages.
        statuses.add(409)
    if "PATCH" in methods:
        statuses |= {408, 409, 412, 413, 415}
    if not accepts:
        statuses.add(401)
    responses: dict[int | str, dict[str, Any]] = {status: _refusal(status) for status in sorted(statuses)}
    if 413 in responses:
        responses[413]["description"] = f"The body has more than {body_limit} bytes."
    if 403 in responses:
        responses[403]["description"] = _forbidden(permission)
    rights = {"x-required-scope": permission.scope, "x-required-role": permission.role}
    extra = {name: str(right) for name, right in rights.items() if right is not None}
    return responses, {"security": [{_SCHEME_OF[kind]: []} for kind in accepts], **extra}


def sends(*names: Literal["ETag", "Location"]) -> dict[str, Any]:
    """Return the part of a response in the description with the headers that the route sends."""
    return {"headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names}}


def links(operation: str, **parameters: str) -> dict[str, Any]:
    """Return the part of a response with a link: an operation whose parameters have values of this request or answer.

    Schemathesis infers most links from the schemas. It cannot infer a link that needs an element of a list of texts,
    or a value of the request.
    """
    return {"links": {operation: {"operationId": operation, "parameters": parameters}}}


def _forbidden(permission: Permission) -> str:
    parts = []
    if permission.scope is not None:
        parts.append(f"the key lacks the scope {permission.scope}")
    if permission.role is not None:
        parts.append(f"the session's user lacks the role {permission.role}")
    if len(permission.accepts) == 1:
        parts.append("the credential is of the other kind")
    sentence = ", or ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _refusal(status: int) -> dict[str, Any]:
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = _RETRY_AFTER
    if status == 401:
        headers["WWW-Authenticate"] = _CHALLENGE
    return {
        "description": _MEANINGS.get(status, TITLES[status]),
        "headers": headers,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of an application, created once."""
    document = app.openapi_schema
    if document is None:
        document = FastAPI.openapi(app)
        _complete(document)
    return document


def changes_state(path: str) -> bool:
    """Return whether a GET of a path changes state: it leases messages, so HEAD must not do the same."""
    return _MESSAGES.fullmatch(path) is not None


def methods_of(app: FastAPI, path: str) -> list[str]:
    """Return every method that a path accepts (RFC 9110, 10.2.1); the router knows only those of one route."""
    allowed: set[str] = set()
    for template, operations in describe(app)["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path):
            allowed |= {method.upper() for method in operations} | {"OPTIONS"}
    if "GET" in allowed and not changes_state(path):
        allowed.add("HEAD")
    return sorted(allowed)


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for schema_name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(schema_name, None)
    schemas |= {"Problem": _PROBLEM, **events_schemas()}
    document["webhooks"] = _webhooks()
    components["securitySchemes"] = _SCHEMES
    components["headers"] = _HEADERS | _ANSWER_HEADERS
    references = {name: {"$ref": f"#/components/headers/{name}"} for name in _HEADERS}
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                response["headers"] = {**response.get("headers", {}), **references}
                example = examples.get(f"{operation['operationId']} {status}")
                if example is not None:
                    answer = examples[example] if isinstance(example, str) else example
                    response["content"]["application/json"]["example"] = answer


def _webhooks() -> dict[str, Any]:
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
                    for name, (description, example) in _SIGNATURE_HEADERS.items()
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
