"""Pure: the credentials of a webhook: what a request changes in the spec, and the Secrets that the operator writes."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hookwright_api.webhook_document import Document, merged
from hookwright_crds.credential_fields import OAuth2
from hookwright_crds.derived_models import in_camel_case
from hookwright_crds.documents.credential_bodies import VALUE_FIELD, CredentialSecret, credential_secret_name
from hookwright_crds.resources import CREDENTIAL_FIELDS, WebhookEndpoint
from hookwright_crds.urls import origin_of
from hookwright_runtime.problems import FieldFault, invalid

_HIDDEN: Final = "(hidden)"


class CredentialPlan(NamedTuple):
    """The effect of a request on the credentials of a webhook.

    Attributes:
        spec: their part of the merge patch of the spec.
        created: the Secrets to create before the spec names them, by name.
        removed: the Secrets to delete when no spec names them.
    """

    spec: Document
    created: dict[str, CredentialSecret]
    removed: tuple[str, ...]


NO_CREDENTIALS: Final = CredentialPlan({}, {}, ())


def hidden_credentials(endpoint: WebhookEndpoint) -> Document:
    """Return the credentials of an endpoint in the form of the request that registers one, without their values."""
    headers = {header.name: {"prefix": header.prefix, "value": _HIDDEN} for header in endpoint.spec.secret_headers}
    client = endpoint.spec.oauth2
    present = {"client_secret": _HIDDEN}
    oauth2 = client and {**client.model_dump(mode="json", exclude={"client_secret_ref"}), **present}
    return {"secret_headers": headers, **({"oauth2": oauth2} if oauth2 else {})}


def without_values(fields: Mapping[str, Any]) -> Document:
    """Return the fields of a request with empty values: a digest of a value could be compared with guesses."""
    hidden = {
        "secret_headers": {name: {"value": ""} for name in fields.get("secret_headers") or ()},
        "oauth2": {"client_secret": ""},
    }
    document: Document = merged(fields, {name: hidden[name] for name in CREDENTIAL_FIELDS if fields.get(name)})
    return document


def refuse_moves(before: Document, fields: Document) -> None:
    """Return if no hidden value reaches another server than the one for which it was given.

    No answer shows these values. Without this check, a change of a URL would send them to a server of the caller.

    Args:
        before: the present document of the webhook, with valid targets.
        fields: the merge patch, whose result has valid targets.

    Raises:
        ProblemError: 422, a target changes, and the patch does not give each present value; it names the others.
    """
    after = merged(before, fields)
    old, new = (_origin(document.get("url")) for document in (before, after))
    old_server, new_server = (_origin((document.get("oauth2") or {}).get("token_url")) for document in (before, after))
    target = "the scheme, host or port of url" if old and new else "the target from url to pull, or from pull to url"
    faults = []
    for field in ("headers", "secret_headers") if old != new else ():
        changes = fields.get(field, {})
        # Names with another case are other entries of the spec, so they replace no value.
        missing = [
            name
            for name in before.get(field, ())
            if changes is not None and not _is_given(changes.get(name, {}), "value")
        ]
        if missing:
            sentence = (
                f"give the values of {', '.join(missing)} again, or remove these headers: hidden values do not follow "
                f"a change of {target}"
            )
            faults.append(FieldFault(field, sentence))
    has_moved = (old, old_server) != (new, new_server)
    if has_moved and before.get("oauth2") and not _is_given(fields.get("oauth2", {}), "client_secret"):
        sentence = "give it again, or remove oauth2: it does not follow a change of the server of url or token_url"
        faults.append(FieldFault("oauth2.client_secret", sentence))
    if faults:
        raise invalid(*faults)


def plan_credentials(
    endpoint: str, fields: Mapping[str, Any], after: Document, spec: Mapping[str, Any], version: str
) -> CredentialPlan:
    """Plan the credentials that a request names.

    Args:
        endpoint: the name of the webhook.
        fields: the request or merge patch.
        after: the document of the webhook with these fields.
        spec: the present spec, empty for a new webhook.
        version: of the Secrets.
    """
    created, patch = dict[str, CredentialSecret](), Document()

    def store(field: str, value: str, *urls: str) -> dict[str, str]:
        name = credential_secret_name(endpoint, field, version)
        hosts = dict.fromkeys(origin_of(url)[1] for url in urls)
        created[name] = CredentialSecret(value=value, hosts=tuple(hosts))
        return {"name": name, "key": VALUE_FIELD}

    if "secret_headers" in fields:
        changes = fields["secret_headers"]
        headers = {header["name"]: header for header in spec.get("secretHeaders") or () if changes is not None}
        for name, change in (changes or {}).items():
            if change is None:
                headers.pop(name, None)
                continue
            header = {**headers.get(name, {"name": name}), "prefix": after["secret_headers"][name].get("prefix", "")}
            if "value" in change:
                header["secretKeyRef"] = store(name, change["value"], after["url"])
            headers[name] = header
        patch["secretHeaders"] = [*headers.values()]
    if "oauth2" in fields:
        client = fields["oauth2"]
        others = client and {name: value for name, value in client.items() if name != "client_secret"}
        patch["oauth2"] = others and in_camel_case(OAuth2, others)
        if client and "client_secret" in client:
            urls = after["url"], after["oauth2"]["token_url"]
            patch["oauth2"]["clientSecretRef"] = store("oauth2", client["client_secret"], *urls)
    replaced_names = _secret_names(spec) - _secret_names(merged(spec, patch))
    return CredentialPlan(patch, created, tuple(sorted(replaced_names)))


def _secret_names(spec: Mapping[str, Any]) -> set[str]:
    references = [header["secretKeyRef"] for header in spec.get("secretHeaders") or ()]
    references += [spec["oauth2"]["clientSecretRef"]] if spec.get("oauth2") else []
    return {reference["name"] for reference in references}


def _is_given(change: Any, field: str) -> bool:
    """Return whether the change of a hidden value gives it, or removes it by None."""
    return not isinstance(change, Mapping) or change.get(field) is not None


def _origin(url: str | None) -> tuple[str, str, int] | None:
    return origin_of(url) if url else None
