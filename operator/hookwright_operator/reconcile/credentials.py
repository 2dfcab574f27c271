"""Pure: the secret headers of an endpoint, and whether their Secrets may go to its host."""

import re
from collections.abc import Mapping
from typing import Final

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION
from hookwright_crds.endpoint_fields import HEADER_VALUE_PATTERN
from hookwright_crds.resources import SecretHeader, WebhookEndpointSpec
from hookwright_crds.urls import origin_of
from hookwright_operator.reconcile.endpoint_verdict import EndpointVerdict
from hookwright_operator.registry import CREDENTIALS_NOT_FOUND, CREDENTIALS_REFUSED, SecretValue
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
        secret = credentials.get(header.secret_key_ref.name)
        value = secret.fields.get(header.secret_key_ref.key, "").strip() if secret is not None else ""
        fault = _fault(header, secret, value, _plain(origin_of(spec.url or "")[1]))
        if fault is not None:
            return (), fault
        values.append(SecretValue(header.name, header.prefix, value))
    return tuple(values), None


def _fault(header: SecretHeader, secret: Secret | None, value: str, host: str) -> EndpointVerdict | None:
    name, key = header.secret_key_ref.name, header.secret_key_ref.key
    if secret is None:
        return _not_found(f'create the Secret {name!r} with the label {CREDENTIAL_LABEL}: "true".')
    if not _allows(secret.annotations.get(HOSTS_ANNOTATION, ""), host):
        message = (
            f"spec.secretHeaders: Secret {name!r} may not go to {host!r}, because its annotation {HOSTS_ANNOTATION} "
            "does not name this host. Deliveries stay pending until the annotation or spec.url is changed."
        )
        return EndpointVerdict(ready=False, reason=CREDENTIALS_REFUSED, message=message)
    if not value or len(value) > _MAX_CHARACTERS or not re.fullmatch(HEADER_VALUE_PATTERN, value):
        return _not_found(f"field {key!r} of Secret {name!r} must have 1 to 4,096 printable characters.")
    return None


def _not_found(sentence: str) -> EndpointVerdict:
    message = f"spec.secretHeaders: {sentence} Deliveries stay pending until then."
    return EndpointVerdict(ready=False, reason=CREDENTIALS_NOT_FOUND, message=message, stalled=False)


def _allows(hosts: str, host: str) -> bool:
    """Return whether a list of hosts has a host, or ``*.`` and a domain above it."""
    names = {_plain(name.strip()) for name in hosts.split(",")}
    is_below = any(host.endswith(name[1:]) for name in names if name.startswith("*."))
    return bool(host) and (host in names or is_below)


def _plain(host: str) -> str:
    return host.rstrip(".").lower()
