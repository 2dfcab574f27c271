"""Endpoints, event types, keys and users of the cluster in the form of ``/v1``, and back.

Keys and users have the form of ``hookwright_crds.keys`` and ``hookwright_crds.users``; a test compares them.
"""

import base64
import hashlib
import json
import re
import secrets
import string
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import CREDENTIAL_FIELDS, ENDPOINT_FIELDS, KEY_SCOPES, SHOWN_FIELDS, USER_ROLES

Document = dict[str, Any]

_MADE_HERE = {"app.kubernetes.io/managed-by": "hookwright-cli"}
"""Labels of a new endpoint, so that the operator deletes it when it expires."""
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_EMAIL = re.compile(r"[^\s@\x00-\x1f\x7f]{1,64}@[^\s@\x00-\x1f\x7f]+")
_ORGANIZATION = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_CHARACTERS = 1024


def endpoint_document(resource: Mapping[str, Any]) -> Document:
    """Return a WebhookEndpoint in the form of ``GET /v1/webhooks/{id}``."""
    meta, spec, status = resource["metadata"], resource["spec"], resource.get("status") or {}
    counts, tls = status.get("deliveries") or {}, spec.get("tls") or {}
    return {
        "id": meta["name"],
        "project": spec["projectRef"]["name"],
        "status": state_of(resource),
        "created_at": meta["creationTimestamp"],
        **{field.name: field.of_spec(spec) for field in SHOWN_FIELDS},
        "enabled": not spec.get("suspend", False),
        "header_names": sorted(spec.get("headers") or {}),
        "secret_header_names": sorted(
            [header["name"] for header in spec.get("secretHeaders") or ()]
            + (["Authorization"] if spec.get("oauth2") else [])
        ),
        "ca_certificate_names": [reference["name"] for reference in tls.get("caCertificateRefs") or ()],
        "client_certificate_name": (tls.get("clientCertificateRef") or {}).get("name"),
        "labels": {name: value for name, value in sorted((meta.get("labels") or {}).items()) if "/" not in name},
        "conditions": [
            {name: entry.get(name, "") for name in ("type", "status", "reason", "message")}
            for entry in status.get("conditions") or ()
        ],
        "deliveries": {
            **{name: counts.get(name, 0) for name in ("pending", "delivered", "failed", "discarded")},
            "last_attempt_at": counts.get("lastAttemptTime"),
            "last_status_code": counts.get("lastStatusCode"),
        },
    }


def condition(resource: Mapping[str, Any], kind: str) -> Document:
    """Return one condition of an object, empty if it has none."""
    conditions = (resource.get("status") or {}).get("conditions") or ()
    return dict(next((entry for entry in conditions if entry["type"] == kind), {}))


def state_of(resource: Mapping[str, Any]) -> str:
    """Return the state of an endpoint in one word, as ``/v1`` does."""
    ready = condition(resource, "Ready")
    if ready.get("reason") == "SuspendedAfterFailures":
        return "suspended"
    if ready.get("status") != "True":
        return "error" if ready.get("status") == "False" else "pending"
    if resource["spec"].get("suspend"):
        return "suspended"
    return "failing" if condition(resource, "Reachable").get("status") == "False" else "active"


def endpoint_patch(fields: Mapping[str, Any]) -> Document:
    """Return the merge patch of a WebhookEndpoint for a merge patch of ``/v1``."""
    if names := [field.name for field in CREDENTIAL_FIELDS if field.name in fields]:
        message = f"{' and '.join(names)} cannot be set with a kubeconfig; write YAML with a Secret for the value"
        raise CommandError(message, ExitCode.USAGE, hint="use --way api, because /v1 writes the Secret")
    spec = {field.spec: field.to_spec(fields[field.name]) for field in ENDPOINT_FIELDS if field.name in fields}
    if "enabled" in fields:
        spec["suspend"] = None if fields["enabled"] is None else not fields["enabled"]
    labels = {"metadata": {"labels": dict(fields["labels"])}} if fields.get("labels") else {}
    return {**labels, **({"spec": spec} if spec else {})}


def endpoint_manifest(name: str, project: str, fields: Mapping[str, Any]) -> Document:
    """Return a new WebhookEndpoint."""
    patch = endpoint_patch({key: value for key, value in fields.items() if value is not None})
    labels = {**patch.get("metadata", {}).get("labels", {}), **_MADE_HERE}
    return _manifest("WebhookEndpoint", {"name": name, "labels": labels}, project, patch.get("spec", {}))


def _manifest(kind: str, metadata: Document, project: str, spec: Document) -> Document:
    return {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"projectRef": {"name": project}, **spec},
    }


def key_document(resource: Mapping[str, Any]) -> Document:
    """Return an ApiKey in the form of the list of keys of ``/v1``."""
    meta, spec, status = resource["metadata"], resource["spec"], resource.get("status") or {}
    return {
        "id": meta["name"],
        "name": spec.get("displayName", ""),
        "scopes": list(spec.get("scopes") or KEY_SCOPES),
        "created_at": meta["creationTimestamp"],
        "last_used_at": status.get("lastUsedAt"),
        "expires_at": spec.get("expiresAt"),
        "project": spec["projectRef"]["name"],
    }


def event_type_document(resource: Mapping[str, Any]) -> Document:
    """Return an EventType in the form of the list of event types of ``/v1``."""
    name, spec = resource["metadata"]["name"], resource["spec"]
    return {
        "type": name,
        "channel": "own",
        "meaning": spec["meaning"],
        "example": {"type": name} | _object_in(spec.get("example", "")) | {"type": name},
        "wildcards": ["*"],
        "deprecated": spec.get("deprecated", False),
        "payload_schema": _object_in(spec.get("payloadSchema", "")) or None,
    }


def _object_in(text: str) -> dict[str, Any]:
    """Return the JSON object of a text, empty if it has none, of which the condition of the EventType says more."""
    with suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(text), dict):
            return value
    return {}


def new_key() -> str:
    """Return a new API key, made on this machine: the cluster gets only the digest."""
    key_id = "".join(secrets.choice(string.digits + string.ascii_lowercase) for _ in range(12))
    body = f"hw_{key_id}_{''.join(secrets.choice(_BASE62) for _ in range(43))}"
    number = zlib.crc32(body.encode())
    return body + "".join(_BASE62[number // 62**place % 62] for place in reversed(range(6)))


def key_manifest(key: str, project: str, fields: Mapping[str, Any]) -> Document:
    """Return a new ApiKey with the digest of a key."""
    spec = {"displayName": fields["name"], "digest": f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"}
    names = {"expiresAt": "expires_at", "scopes": "scopes"}
    optional = {name: fields[field] for name, field in names.items() if fields.get(field)}
    return _manifest("ApiKey", {"name": key.split("_")[1]}, project, {**spec, **optional})


def normal_address(text: str) -> str:
    """Return an email address in its normal form."""
    email = text.strip().lower()
    if len(email) > 254 or not _EMAIL.fullmatch(email):
        raise CommandError(f"email {text!r} must be an address such as ada@example.com", ExitCode.USAGE)
    return email


def secret_name_of(email: str) -> str:
    """Return the name of the Secret of a user with a normal address."""
    return f"user-{hashlib.sha256(email.encode()).hexdigest()[:20]}"


def user_manifest(namespace: str, *, email: str, organization: str, password_hash: str, role: str) -> Document:
    """Return the Secret of a user."""
    if not _ORGANIZATION.fullmatch(organization):
        raise CommandError(f"--organization {organization!r} must be the name of a namespace", ExitCode.USAGE)
    if role not in USER_ROLES:
        raise CommandError(f"--role {role!r} must be one of {', '.join(USER_ROLES)}", ExitCode.USAGE)
    address = normal_address(email)
    labels = {"hookwright.dev/user": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "hookwright.dev/user",
        "metadata": {"name": secret_name_of(address), "namespace": namespace, "labels": labels},
        "stringData": {"email": address, "organization": organization, "passwordHash": password_hash, "role": role},
    }


def user_document(secret: Mapping[str, Any]) -> Document:
    """Return a user without the hash of the password."""
    data = secret.get("data") or {}
    names = ("email", "organization", "role")
    user = {name: base64.b64decode(data.get(name, "")).decode("utf-8", "replace") for name in names}
    return {**user, "role": user["role"] or "admin", "created_at": secret["metadata"]["creationTimestamp"]}


def hash_of(password: str) -> str:
    """Return the argon2id hash of a password in the PHC string format."""
    if not 0 < len(password) <= _MOST_CHARACTERS:
        raise CommandError(f"the password must have 1 to {_MOST_CHARACTERS} characters", ExitCode.USAGE)
    from argon2 import PasswordHasher

    # The API checks it; more threads would take the cores from its event loop.
    return PasswordHasher(parallelism=1).hash(password)
