"""Pure: the credentials of a webhook: what a request changes in the spec, and the Secrets that the operator writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any, Final, NamedTuple

from hookwright_api.webhook_document import Document, merged
from hookwright_crds.credential_fields import OAuth2
from hookwright_crds.derived_models import in_camel_case
from hookwright_crds.documents.credential_bodies import (
    CONFIG_MAP,
    GIVEN_FIELDS,
    VALUE_FIELD,
    CredentialObject,
    credential_secret_name,
    is_secret_name,
)
from hookwright_crds.resources import WebhookEndpoint
from hookwright_crds.tls import Tls
from hookwright_crds.trimming import AUTHORITIES_FIELD, PAIR_FIELDS
from hookwright_crds.urls import origin_of
from hookwright_runtime.problems import FieldFault, invalid

_HIDDEN: Final = "(hidden)"
_HIDDEN_PEM: Final = "-----BEGIN (hidden)"
_PAIR: Final = ("client_certificate", "client_key")


class CredentialPlan(NamedTuple):
    """The effect of a request on the credentials of a webhook.

    Attributes:
        spec: their part of the merge patch of the spec.
        created: the Secrets to create before the spec names them, by name.
        removed: the Secrets of `/v1` to delete when no spec names them.
    """

    spec: Document
    created: dict[str, CredentialObject]
    removed: tuple[str, ...]


NO_CREDENTIALS: Final = CredentialPlan({}, {}, ())


def hidden_credentials(endpoint: WebhookEndpoint) -> Document:
    """Return the credentials of an endpoint in the form of the request that registers one, without their values."""
    headers = {header.name: {"prefix": header.prefix, "value": _HIDDEN} for header in endpoint.spec.secret_headers}
    client = endpoint.spec.oauth2
    present = {"client_secret": _HIDDEN}
    oauth2 = client and {**client.model_dump(mode="json", exclude={"client_secret_ref"}), **present}
    tls, references = {}, endpoint.spec.tls or Tls()
    if references.ca_certificate_refs:
        tls["ca_certificates"] = _HIDDEN_PEM
    if references.client_certificate_ref is not None:
        tls |= dict.fromkeys(_PAIR, _HIDDEN_PEM)
    objects = {"oauth2": oauth2, "tls": tls}
    return {"secret_headers": headers, **{name: value for name, value in objects.items() if value}}


def without_values(fields: Mapping[str, Any]) -> Document:
    """Return the fields of a request with empty values: a digest of a value could be compared with guesses."""
    hidden = {
        "secret_headers": {name: {"value": ""} for name in fields.get("secret_headers") or ()},
        "oauth2": {"client_secret": ""},
        "tls": dict.fromkeys(fields.get("tls") or (), ""),
    }
    document: Document = merged(fields, {name: hidden[name] for name in GIVEN_FIELDS if fields.get(name)})
    return document


def refuse_moves(before: Document, fields: Document) -> None:
    """Return if no hidden value reaches another server than the one for which it was given.

    No answer shows these values. Without this check, a change of a URL would send them to a server of the caller. With
    other authorities, a server of the caller could answer in place of the receiver.

    Args:
        before: the present document of the webhook, with valid targets.
        fields: the merge patch, whose result has valid targets.

    Raises:
        ProblemError: 422, a target changes, and the patch does not give each present value; it names the others.
    """
    after = merged(before, fields)
    old, new = (_origin(document.get("url")) for document in (before, after))
    old_server, new_server = (_origin((document.get("oauth2") or {}).get("token_url")) for document in (before, after))
    old_ca, new_ca = ((document.get("tls") or {}).get("ca_certificates") for document in (before, after))
    target = "the scheme, host or port of url" if old and new else "the target from url to pull, or from pull to url"
    if old == new:
        target = "tls.ca_certificates"
    faults = []
    for field in ("headers", "secret_headers") if (old, old_ca) != (new, new_ca) else ():
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
    has_moved = (old, old_server, old_ca) != (new, new_server, new_ca)
    if has_moved and before.get("oauth2") and not _is_given(fields.get("oauth2", {}), "client_secret"):
        sentence = (
            "give it again, or remove oauth2: it does not follow a change of tls.ca_certificates, or of the server of "
            "url or token_url"
        )
        faults.append(FieldFault("oauth2.client_secret", sentence))
    has_key = "client_key" in (before.get("tls") or {})
    if old != new and has_key and not _is_given(fields.get("tls", {}), "client_key"):
        sentence = f"give it again, or remove the client certificate: it does not follow a change of {target}"
        faults.append(FieldFault("tls.client_key", sentence))
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
    planner = _Planner(endpoint, after, version)
    patch = Document()
    if "secret_headers" in fields:
        present = {header["name"]: header for header in spec.get("secretHeaders") or ()}
        # An endpoint with pull may not even have an empty list.
        patch["secretHeaders"] = planner.headers(fields["secret_headers"], present) or None
    if "oauth2" in fields:
        patch["oauth2"] = fields["oauth2"] and planner.oauth2(fields["oauth2"])
    if "tls" in fields:
        patch["tls"] = fields["tls"] and planner.tls(fields["tls"])
    replaced_names = _secret_names(spec) - _secret_names(merged(spec, patch))
    removed = tuple(sorted(name for name in replaced_names if is_secret_name(endpoint, name)))
    return CredentialPlan(patch, planner.created, removed)


@dataclass(slots=True)
class _Planner:
    """Plans the parts of the spec, and collects the objects that they refer to."""

    endpoint: str
    after: Document
    version: str
    created: dict[str, CredentialObject] = attribute(default_factory=dict)

    def headers(self, changes: Document | None, present: Mapping[str, Document]) -> list[Document]:
        """Return the secret headers; changes that are None remove all."""
        headers = dict(present) if changes is not None else {}
        for name, change in (changes or {}).items():
            if change is None:
                headers.pop(name, None)
                continue
            prefix = self.after["secret_headers"][name].get("prefix", "")
            headers[name] = {**headers.get(name, {"name": name}), "prefix": prefix}
            if "value" in change:
                reference = self._create(f"secret_headers.{name}", {VALUE_FIELD: change["value"]}, self.after["url"])
                headers[name]["secretKeyRef"] = reference
        return [*headers.values()]

    def oauth2(self, client: Document) -> Document:
        """Return the merge patch of the client."""
        patch = in_camel_case(OAuth2, {name: value for name, value in client.items() if name != "client_secret"})
        if "client_secret" in client:
            urls = self.after["url"], self.after["oauth2"]["token_url"]
            patch["clientSecretRef"] = self._create("oauth2", {VALUE_FIELD: client["client_secret"]}, *urls)
        return patch

    def tls(self, change: Document) -> Document:
        """Return the merge patch of the references to certificates."""
        patch = Document()
        if "ca_certificates" in change:
            text = change["ca_certificates"]
            ca = text and self._create("tls.ca_certificates", {AUTHORITIES_FIELD: text}, type_=CONFIG_MAP)
            patch["caCertificateRefs"] = ca and [ca]
        if not change.keys().isdisjoint(_PAIR):
            texts = [change.get(name) for name in _PAIR]
            pair = dict(zip(PAIR_FIELDS, texts, strict=True)) if all(texts) else None
            patch["clientCertificateRef"] = pair and self._create(
                "tls.client_key", pair, self.after["url"], type_="kubernetes.io/tls"
            )
        return patch

    def _create(self, field: str, values: Document, *urls: str, type_: Any = "Opaque") -> dict[str, str]:
        name = credential_secret_name(self.endpoint, field, self.version)
        hosts = dict.fromkeys(origin_of(url)[1] for url in urls)
        self.created[name] = CredentialObject(type=type_, fields=values, hosts=tuple(hosts))
        return {"name": name} | ({"key": VALUE_FIELD} if VALUE_FIELD in values else {})


def _secret_names(spec: Mapping[str, Any]) -> set[str]:
    references = [header["secretKeyRef"] for header in spec.get("secretHeaders") or ()]
    references += [spec["oauth2"]["clientSecretRef"]] if spec.get("oauth2") else []
    tls = spec.get("tls") or {}
    references += [*(tls.get("caCertificateRefs") or ()), *filter(None, [tls.get("clientCertificateRef")])]
    return {reference["name"] for reference in references}


def _is_given(change: Any, field: str) -> bool:
    """Return whether the change of a hidden value gives it, or removes it by None."""
    return not isinstance(change, Mapping) or change.get(field) is not None


def _origin(url: str | None) -> tuple[str, str, int] | None:
    return origin_of(url) if url else None
