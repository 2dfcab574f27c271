"""Pure: the credentials of an endpoint for its receiver, and whether their Secrets may go to its hosts."""

import re
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION, format_timestamp
from hookwright_crds.conditions import CREDENTIALS_INVALID, CREDENTIALS_NOT_FOUND, CREDENTIALS_REFUSED
from hookwright_crds.credential_fields import MAX_CREDENTIAL_LENGTH, CredentialRef
from hookwright_crds.endpoint_fields import HEADER_VALUE_PATTERN
from hookwright_crds.resources import WebhookEndpointSpec
from hookwright_crds.tls import Tls
from hookwright_crds.trimming import AUTHORITIES_FIELD, CREDENTIAL_BYTES, PAIR_FIELDS
from hookwright_crds.urls import origin_of
from hookwright_operator.delivery.http.certificates import examine, has_certificates
from hookwright_operator.reconcile.endpoint_verdict import EndpointVerdict
from hookwright_operator.registry import (
    OAuth2Client,
    SecretValue,
    TlsIdentity,
)
from hookwright_operator.watch.objects import Secret


class Credentials(NamedTuple):
    """The credentials of an endpoint that can be used: of secret headers all or none.

    Attributes:
        tls: also if the client certificate has ended.
        fault: the verdict about the first credential that cannot be used, None if there is none.
    """

    secret_headers: tuple[SecretValue, ...]
    oauth2: OAuth2Client | None
    tls: TlsIdentity | None
    fault: EndpointVerdict | None


def resolve(
    spec: WebhookEndpointSpec, secrets: Mapping[str, Secret], authorities: Mapping[str, str], now: datetime
) -> Credentials:
    """Return the credentials of an endpoint.

    Args:
        spec: of the endpoint.
        secrets: the Secrets that their tenant offers for deliveries, by name.
        authorities: the certificates of the ConfigMaps that their tenant offers, by name.
        now: decides whether the client certificate has ended.
    """
    headers, header_fault = _secret_headers(spec, secrets)
    client, client_fault = _oauth2(spec, secrets)
    identity, identity_fault = _tls(spec, secrets, authorities, now)
    return Credentials(headers, client, identity, header_fault or client_fault or identity_fault)


def _secret_headers(
    spec: WebhookEndpointSpec, credentials: Mapping[str, Secret]
) -> tuple[tuple[SecretValue, ...], EndpointVerdict | None]:
    """Return the values of all secret headers, or none and the verdict about the first one without its value."""
    values = []
    for header in spec.secret_headers:
        targets = {"spec.url": spec.url or ""}
        value, fault = _value("secretHeaders", header.secret_key_ref, credentials, targets)
        if fault is not None:
            return (), fault
        values.append(SecretValue(header.name, header.prefix, value))
    return tuple(values), None


def _oauth2(
    spec: WebhookEndpointSpec, credentials: Mapping[str, Secret]
) -> tuple[OAuth2Client | None, EndpointVerdict | None]:
    """Return the client of the token server, if there is one, or the verdict about its Secret.

    The Secret must name both hosts: the token server gets the secret, and the receiver gets what it is worth.
    """
    if spec.oauth2 is None:
        return None, None
    secret, fault = _value("oauth2", spec.oauth2.client_secret_ref, credentials, spec.urls)
    if fault is not None:
        return None, fault
    scope = {"scope": " ".join(spec.oauth2.scopes)} if spec.oauth2.scopes else {}
    form = {"grant_type": "client_credentials", **scope, **spec.oauth2.endpoint_params}
    return OAuth2Client(spec.oauth2.token_url, spec.oauth2.client_id, secret, tuple(form.items())), None


def _tls(
    spec: WebhookEndpointSpec, credentials: Mapping[str, Secret], authorities: Mapping[str, str], now: datetime
) -> tuple[TlsIdentity | None, EndpointVerdict | None]:
    """Return the TLS identity, or the verdict about its first fault; both, if the client certificate has ended."""
    if spec.tls is None or not spec.tls.references:
        return None, None
    fault = _authorities_fault(spec.tls, authorities)
    if fault is not None:
        return None, fault
    trusted = "\n".join(authorities[reference.name] for reference in spec.tls.ca_certificate_refs)
    pair, ends_at, reference = "", None, spec.tls.client_certificate_ref
    if reference is not None:
        pair, ends_at, fault = _pair(reference.name, credentials.get(reference.name), spec.url or "", now)
        if ends_at is None:
            return None, fault
    digest = "".join(sha256(text.encode()).hexdigest() for text in (trusted, pair))
    return TlsIdentity(digest, trusted, pair, ends_at), fault


def _authorities_fault(tls: Tls, authorities: Mapping[str, str]) -> EndpointVerdict | None:
    for name in (reference.name for reference in tls.ca_certificate_refs):
        if name not in authorities:
            return _not_found("tls", _creation("ConfigMap", name))
        if not has_certificates(authorities[name]):
            return _invalid(
                f"field {AUTHORITIES_FIELD!r} of ConfigMap {name!r} must have certificates in PEM, at most "
                f"{CREDENTIAL_BYTES // 1024} KiB."
            )
    return None


def _pair(
    name: str, secret: Secret | None, url: str, now: datetime
) -> tuple[str, datetime | None, EndpointVerdict | None]:
    """Return a client certificate with its key, when it ends, and its fault; no end if it cannot be used at all."""
    fault = _offer_fault("tls", name, secret, url)
    if fault is not None or secret is None:
        return "", None, fault
    certificate, key = (secret.fields.get(field, "") for field in PAIR_FIELDS)
    if not certificate or not key:
        return "", None, _not_found("tls", f"Secret {name!r} must have the fields {' and '.join(PAIR_FIELDS)}.")
    ends_at = examine(certificate, key)
    if isinstance(ends_at, str):
        return "", None, _invalid(f"Secret {name!r}: {ends_at}.")
    ended = _invalid(f"the certificate in Secret {name!r} ended at {format_timestamp(ends_at)}.")
    return f"{certificate}\n{key}", ends_at, ended if now >= ends_at else None


def _value(
    field: str, reference: CredentialRef, credentials: Mapping[str, Secret], urls: Mapping[str, str]
) -> tuple[str, EndpointVerdict | None]:
    """Return the value of a field of a Secret if it may go to all URLs, or the verdict about it."""
    name, secret = reference.name, credentials.get(reference.name)
    for url_field, url in urls.items():
        fault = _offer_fault(field, name, secret, url, url_field)
        if fault is not None:
            return "", fault
    value = secret.fields.get(reference.key, "").strip() if secret is not None else ""
    if value and len(value) <= MAX_CREDENTIAL_LENGTH and re.fullmatch(HEADER_VALUE_PATTERN, value):
        return value, None
    sentence = f"field {reference.key!r} of Secret {name!r} must have 1 to 4,096 printable characters."
    return "", _not_found(field, sentence)


def _offer_fault(
    field: str, name: str, secret: Secret | None, url: str, url_field: str = "spec.url"
) -> EndpointVerdict | None:
    """Return why a Secret may not be used for a URL."""
    if secret is None:
        return _not_found(field, _creation("Secret", name))
    host = _plain(origin_of(url)[1])
    if _allows(secret.annotations.get(HOSTS_ANNOTATION, ""), host):
        return None
    message = (
        f"spec.{field}: Secret {name!r} may not go to {host!r}, because its annotation {HOSTS_ANNOTATION} "
        f"does not name this host. Deliveries stay pending until the annotation or {url_field} is changed."
    )
    return EndpointVerdict(ready=False, reason=CREDENTIALS_REFUSED, message=message)


def _creation(kind: str, name: str) -> str:
    return f'create the {kind} {name!r} with the label {CREDENTIAL_LABEL}: "true".'


def _not_found(field: str, sentence: str) -> EndpointVerdict:
    message = f"spec.{field}: {sentence} Deliveries stay pending until then."
    return EndpointVerdict(ready=False, reason=CREDENTIALS_NOT_FOUND, message=message, stalled=False)


def _invalid(sentence: str) -> EndpointVerdict:
    message = f"spec.tls: {sentence} Deliveries stay pending until it is corrected."
    return EndpointVerdict(ready=False, reason=CREDENTIALS_INVALID, message=message)


def _allows(hosts: str, host: str) -> bool:
    """Return whether a list of hosts has a host, or ``*.`` and a domain above it."""
    names = {_plain(name.strip()) for name in hosts.split(",")}
    is_below = any(host.endswith(name[1:]) for name in names if name.startswith("*."))
    return bool(host) and (host in names or is_below)


def _plain(host: str) -> str:
    return host.rstrip(".").lower()
