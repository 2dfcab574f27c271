"""Pure: a webhook as a document of `/v1`: its answers, its fields in a WebhookEndpoint, merge patches, ETags, owner.

Source: RFC 7396 (JSON Merge Patch), RFC 9110, section 13.1.1 (If-Match).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from hookwright_crds.base import MADE_BY_API, MANAGED_BY, ObjectMeta
from hookwright_crds.conditions import SUSPENDED_AFTER_FAILURES, find
from hookwright_crds.derived_models import in_camel_case
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, EndpointFields
from hookwright_crds.resources import DeliveryCounts, WebhookEndpoint
from hookwright_crds.tls import Tls
from hookwright_runtime.problems import FieldFault, ProblemError, invalid

Document = dict[str, Any]

_SPEC_FIELDS: Final = set(EndpointFields.model_fields)
"""The fields of a spec that have the same form on `/v1`."""
_OURS: Final = MADE_BY_API[MANAGED_BY]
"""The field manager of the API's writes, and the value of the label on its objects."""
_ETAGS: Final = re.compile(r'(?:W/)?"[\x21\x23-\x7e]*"(?:[ \t]*,[ \t]*(?:W/)?"[\x21\x23-\x7e]*")*')
_MOST_CHARACTERS: Final = 1024
"""Most characters of the header If-Match."""
_STRONG: Final = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"')
_MOST_NAMED: Final = 3
_DIGITS: Final = 16


def endpoint_status(endpoint: WebhookEndpoint) -> str:
    """Return the state of an endpoint in one word.

    ``pending``: the operator has not reconciled it yet. ``error``: no delivery is sent; the condition Ready has the
    reason. ``suspended``: deliveries stay pending. ``failing``: the last attempt got no 2xx answer. ``active``:
    otherwise.
    """
    ready = find(endpoint.status.conditions, "Ready")
    reachable = find(endpoint.status.conditions, "Reachable")
    if ready is None or ready.status == "Unknown":
        return "pending"
    if ready.status == "False" and ready.reason != SUSPENDED_AFTER_FAILURES:
        return "error"
    if endpoint.spec.suspend or ready.status == "False":
        return "suspended"
    return "failing" if reachable is not None and reachable.status == "False" else "active"


def endpoint_summary(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint in the form of lists; of its headers only the names, because a value may be a credential."""
    tls = endpoint.spec.tls or Tls()
    pair = tls.client_certificate_ref
    return {
        "id": endpoint.metadata.name,
        "project": endpoint.spec.project_ref.name,
        "status": endpoint_status(endpoint),
        "created_at": endpoint.metadata.creation_timestamp,
        **{name: value for name, value in own_fields(endpoint).items() if name not in HIDDEN_FIELDS},
        "header_names": sorted(endpoint.spec.headers),
        "secret_header_names": endpoint.spec.secret_header_names,
        "ca_certificate_names": [reference.name for reference in tls.ca_certificate_refs],
        "client_certificate_name": pair.name if pair is not None else None,
        "labels": own_labels(endpoint.metadata.labels),
    }


def own_fields(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return the fields of an endpoint that people set, with their names on `/v1`."""
    fields = endpoint.spec.model_dump(mode="json", include=_SPEC_FIELDS)
    return {**fields, "enabled": not endpoint.spec.suspend}


def own_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that `/v1` shows and changes: those without a prefix.

    Source: Kubernetes, "Labels and Selectors": a key without a prefix is private to the user, and tools must use one.
    """
    return {name: value for name, value in sorted(labels.items()) if "/" not in name}


def endpoint_detail(endpoint: WebhookEndpoint) -> dict[str, Any]:
    """Return an endpoint with its conditions and delivery counts."""
    counts = endpoint.status.deliveries or DeliveryCounts()
    return {
        **endpoint_summary(endpoint),
        "conditions": [
            {"type": entry.type, "status": entry.status, "reason": entry.reason, "message": entry.message}
            for entry in endpoint.status.conditions
        ],
        "deliveries": {
            "pending": counts.pending,
            "delivered": counts.delivered,
            "failed": counts.failed,
            "discarded": counts.discarded,
            "last_attempt_at": counts.last_attempt_time,
            "last_status_code": counts.last_status_code,
        },
    }


def merged(target: Any, patch: Any) -> Any:
    """Return the result of a merge patch (RFC 7396, section 2); the target does not change."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def document_of(endpoint: WebhookEndpoint) -> Document:
    """Return the fields of an endpoint in the form of the request that registers one."""
    return {**own_fields(endpoint), "labels": own_labels(endpoint.metadata.labels)}


def spec_of(fields: Mapping[str, Any]) -> Document:
    """Return the fields of ``spec`` for the JSON form of a request or of a merge patch; None stays None."""
    spec_fields = {name: value for name, value in fields.items() if name in _SPEC_FIELDS}
    spec = in_camel_case(EndpointFields, spec_fields)
    if "enabled" in fields:
        enabled = fields["enabled"]
        spec["suspend"] = None if enabled is None else not enabled
    return spec


def labels_patch(fields: Mapping[str, Any], present: Mapping[str, str]) -> Document:
    """Return the merge patch of ``metadata.labels`` for a merge patch of a webhook; a null removes its own labels."""
    if "labels" not in fields:
        return {}
    changes = fields["labels"]
    return dict.fromkeys(own_labels(present)) if changes is None else dict(changes)


def owner_of(resource: Mapping[str, Any]) -> str | None:
    """Return the name of the field manager that owns the spec of an object, None if `/v1` owns it."""
    meta = resource["metadata"]
    managers = [
        str(entry.get("manager") or "unknown")
        for entry in meta.get("managedFields") or ()
        if not entry.get("subresource") and "f:spec" in (entry.get("fieldsV1") or {})
    ]
    owners = list(dict.fromkeys(name for name in managers if name != _OURS))
    if owners:
        rest = f" and {len(owners) - _MOST_NAMED} more" if len(owners) > _MOST_NAMED else ""
        return ", ".join(owners[:_MOST_NAMED]) + rest
    made_by = (meta.get("labels") or {}).get(MANAGED_BY)
    return None if made_by == _OURS else made_by or "unknown"


def refuse_declared(resource: Mapping[str, Any]) -> None:
    """Return if `/v1` may change or delete an object.

    Raises:
        ProblemError: 409, it was declared outside of `/v1`, or somebody else changed its spec.
    """
    owner = owner_of(resource)
    if owner is not None:
        raise ProblemError(
            409,
            f'the webhook is declared outside of this API: the field manager "{owner}" owns its spec. Change or delete '
            "it there, for example in the YAML file or the Git repository that it comes from",
        )


def etag_of(meta: ObjectMeta) -> str:
    """Return the ETag of a state: its resource version and, after a period, a digest of what people set.

    The operator writes the status after every change, and then again and again. Such a write changes the resource
    version alone, and it must not make the ETag of a client useless.
    """
    return f'"{meta.resource_version}.{_settings_digest(meta)}"'


def check_etag(if_match: str | None, meta: ObjectMeta) -> None:
    """Return if the header If-Match allows a change of a state.

    An ETag with a digest allows it if people have set the same; a resource version alone, such as that of kubectl,
    allows it if the whole object is the same.

    Raises:
        ProblemError: 412, the state is another one; 422, the header has no ETag.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if len(if_match) > _MOST_CHARACTERS:
        raise invalid(FieldFault("If-Match", f"must have at most {_MOST_CHARACTERS} characters"))
    if not _ETAGS.fullmatch(if_match.strip()):
        raise invalid(FieldFault("If-Match", "must be an ETag of an earlier answer"))
    # A weak ETag never matches here (RFC 9110, 13.1.1).
    etags = [tag.partition(".") for weak, tag in _STRONG.findall(if_match) if not weak]
    settings = _settings_digest(meta)
    if any((digest or version) == (settings if digest else meta.resource_version) for version, _, digest in etags):
        return
    raise ProblemError(412, "the webhook changed since this ETag; get it, and repeat the change with its new ETag")


def _settings_digest(meta: ObjectMeta) -> str:
    """Return a digest that changes with every change of the spec (its generation) and of the labels of people."""
    parts = {"uid": meta.uid, "generation": meta.generation, "labels": own_labels(meta.labels)}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
