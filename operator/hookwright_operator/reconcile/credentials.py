"""Pure: the credentials of an endpoint for its receiver, and whether their Secrets may go to its hosts."""

import re
from collections.abc import Mapping
from typing import Final

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION
from hookwright_crds.credential_fields import CredentialRef
from hookwright_crds.endpoint_fields import HEADER_VALUE_PATTERN
from hookwright_crds.resources import WebhookEndpointSpec
from hookwright_crds.urls import origin_of
from hookwright_operator.reconcile.endpoint_verdict import EndpointVerdict
from hookwright_operator.registry import CREDENTIALS_NOT_FOUND, CREDENTIALS_REFUSED, OAuth2Client, SecretValue
from hookwright_operator.watch.objects import Secret

_MAX_CHARACTERS: Final = 4096


def resolve(
    spec: WebhookEndpointSpec, credentials: Mapping[str, Secret]
) -> tuple[tuple[SecretValue, ...], EndpointVerdict | None]:
    """Return the values of all secret headers, or none of them and the verdict about the first one that lacks its own.

    Args:
        spec: of the endpoint.
        credentials: the Secrets that their tenant offers for deliveries, by name.
    """
    values = []
    for header in spec.secret_headers:
        targets = {"spec.url": spec.url or ""}
        value, fault = _value("secretHeaders", header.secret_key_ref, credentials, targets)
        if fault is not None:
            return (), fault
        values.append(SecretValue(header.name, header.prefix, value))
    return tuple(values), None


def resolve_oauth2(
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
    if value and len(value) <= _MAX_CHARACTERS and re.fullmatch(HEADER_VALUE_PATTERN, value):
        return value, None
    sentence = f"field {reference.key!r} of Secret {name!r} must have 1 to 4,096 printable characters."
    return "", _not_found(field, sentence)


def _offer_fault(
    field: str, name: str, secret: Secret | None, url: str, url_field: str = "spec.url"
) -> EndpointVerdict | None:
    """Return why a Secret may not be used for a URL."""
    if secret is None:
        return _not_found(field, f'create the Secret {name!r} with the label {CREDENTIAL_LABEL}: "true".')
    host = _plain(origin_of(url)[1])
    if _allows(secret.annotations.get(HOSTS_ANNOTATION, ""), host):
        return None
    message = (
        f"spec.{field}: Secret {name!r} may not go to {host!r}, because its annotation {HOSTS_ANNOTATION} "
        f"does not name this host. Deliveries stay pending until the annotation or {url_field} is changed."
    )
    return EndpointVerdict(ready=False, reason=CREDENTIALS_REFUSED, message=message)


def _not_found(field: str, sentence: str) -> EndpointVerdict:
    message = f"spec.{field}: {sentence} Deliveries stay pending until then."
    return EndpointVerdict(ready=False, reason=CREDENTIALS_NOT_FOUND, message=message, stalled=False)


def _allows(hosts: str, host: str) -> bool:
    """Return whether a list of hosts has a host, or ``*.`` and a domain above it."""
    names = {_plain(name.strip()) for name in hosts.split(",")}
    is_below = any(host.endswith(name[1:]) for name in names if name.startswith("*."))
    return bool(host) and (host in names or is_below)


def _plain(host: str) -> str:
    return host.rstrip(".").lower()
