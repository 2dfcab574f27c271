"""Pure: whether an endpoint is ready, by its spec and its signing Secret."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hookwright_crds.base import format_timestamp, parse_duration
from hookwright_crds.conditions import SUSPENDED_AFTER_FAILURES
from hookwright_crds.events import SUBSCRIPTIONS, is_own_type, nearest_types
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import WebhookEndpointSpec
from hookwright_crds.signing_fields import SecretRef
from hookwright_crds.signing_secrets import SIGNING_LABEL, valid_secret
from hookwright_operator.reconcile.plan import REFUSED_SENTENCE, WRITE_REFUSED
from hookwright_operator.reconcile.signing_secret import MISSING, SECRET_FIELD
from hookwright_operator.watch.objects import Secret

CONFLICT: Final = "SecretConflict"
UNSUPPORTED: Final = "UnsupportedSpec"
_NAMED: Final = 3
"""Missing EventTypes that a message names."""
_INVALID: Final = "SigningSecretInvalid"


@dataclass(frozen=True, slots=True)
class EndpointVerdict:
    """Whether everything declared is in effect, and the reason.

    Attributes:
        sends: deliveries are signed and sent, although a part of the spec is not in effect.
        stalled: the endpoint does not become ready until somebody changes it, or what it names.
    """

    ready: bool
    reason: str
    message: str
    sends: bool = False
    stalled: bool = True


def report_unsupported(unsupported_parts: Unsupported) -> EndpointVerdict:
    """Return the verdict about a spec that this version does not understand."""
    message = f"{unsupported_parts.sentence} Deliveries stay pending until an operator understands the spec."
    return EndpointVerdict(ready=False, reason=UNSUPPORTED, message=message)


def report_missing_project(project: str, namespace: str) -> EndpointVerdict:
    """Return the verdict about an endpoint whose Project does not exist."""
    message = (
        f"Project {project!r} does not exist in namespace {namespace!r}; "
        "create it; then this endpoint becomes ready automatically. Deliveries stay pending until then."
    )
    return EndpointVerdict(ready=False, reason="ProjectNotFound", message=message, stalled=False)


def report_refused_write(refusal: str) -> EndpointVerdict:
    """Return the verdict about an endpoint for which the API server refuses a write."""
    return EndpointVerdict(ready=False, reason=WRITE_REFUSED, message=REFUSED_SENTENCE + refusal, stalled=False)


def report_suspension(spec: WebhookEndpointSpec, since: datetime, last_error: str) -> EndpointVerdict:
    """Return the verdict about an endpoint that has not succeeded for the time of ``spec.suspendAfter``."""
    message = (
        f"No attempt has succeeded since {format_timestamp(since)}, so the operator suspended the endpoint "
        f"(spec.suspendAfter is {spec.suspend_after}). Deliveries wait. A successful test, a retry by hand or a change "
        f"of the endpoint resumes it. Last error: {last_error}"
    )
    return EndpointVerdict(ready=False, reason=SUSPENDED_AFTER_FAILURES, message=message)


def report_missing_types(spec: WebhookEndpointSpec, own_types: Collection[str]) -> EndpointVerdict | None:
    """Return the verdict about an endpoint that names types which are neither built in nor EventTypes, or None."""
    names = [name for name in spec.events if is_own_type(name) and name not in own_types]
    if not names:
        return None
    sentences = [
        f"EventType {name!r} does not exist; {nearest_types(name, own_types, SUBSCRIPTIONS)}."
        for name in names[:_NAMED]
    ]
    if len(names) > _NAMED:
        sentences.append(f"{len(names) - _NAMED} more do not exist.")
    message = f"spec.events: {' '.join(sentences)} Create it, or correct the name. Other events are delivered."
    return EndpointVerdict(ready=False, reason="EventTypesNotFound", message=message, sends=True, stalled=False)


def verdict_of(
    spec: WebhookEndpointSpec,
    secret: Secret,
    *,
    unsupported_parts: Unsupported,
    allow_http: bool,
    max_timeout: float,
    refused_address: str,
    credential_fault: EndpointVerdict | None = None,
    certificate_end: datetime | None = None,
    last_error: str = "",
) -> EndpointVerdict:
    """Return the verdict about an endpoint that has a Project and has not expired.

    Args:
        spec: of the endpoint.
        secret: with which it signs.
        unsupported_parts: the parts of the endpoint that this version does not understand.
        allow_http: whether the installation allows plain http.
        max_timeout: the longest timeout of an attempt in this installation, in seconds.
        refused_address: a URL's field, and why no request may connect to its literal address; empty if it may.
        credential_fault: the verdict about its credentials, None if each is fit and may go to its hosts.
        certificate_end: when its client certificate ends, None without one.
        last_error: of the last attempt, empty if it succeeded or none was made.
    """
    faulty = _faulty_reference(spec.signing.secret_ref, secret) if spec.signing.secret_ref else _faulty(secret)
    if faulty is not None:
        return faulty
    insecure_fields = [field for field, url in spec.urls.items() if url.startswith("http:")]
    if insecure_fields and not allow_http:
        return EndpointVerdict(
            ready=False,
            reason="InsecureUrl",
            message=f"{insecure_fields[0]} is plain http, which this installation does not allow; "
            "use https, or set HOOKWRIGHT_ALLOW_HTTP=true for the operator.",
        )
    if refused_address:
        return EndpointVerdict(
            ready=False,
            reason="AddressRefused",
            message=f"{refused_address}. Deliveries stay pending until the URL is changed.",
        )
    if credential_fault is not None:
        return credential_fault
    if unsupported_parts.events:
        message = f"{unsupported_parts.sentence} Events of the known types are delivered."
        return EndpointVerdict(ready=False, reason=UNSUPPORTED, message=message, sends=True)
    reason, message = "Delivering", "Deliveries are signed and sent."
    if spec.pull is not None:
        reason, message = "Waiting", "Deliveries are signed and wait until a consumer takes them."
    elif last_error:
        message = f"Deliveries are signed and retried. Last error: {last_error}"
    elif parse_duration(spec.timeout).total_seconds() > max_timeout:
        message += f" The timeout is {max_timeout:g}s, the longest of this installation, not {spec.timeout}."
    if spec.suspend:
        reason, message = "Suspended", "Deliveries stay pending until spec.suspend is false."
    end = f"The client certificate ends at {format_timestamp(certificate_end)}." if certificate_end else ""
    sentences = filter(None, (message, end, unsupported_parts.ignored))
    return EndpointVerdict(ready=True, reason=reason, message=" ".join(sentences))


def _faulty(secret: Secret) -> EndpointVerdict | None:
    """Return what is wrong with a Secret of the operator."""
    if secret.foreign:
        return EndpointVerdict(
            ready=False,
            reason=CONFLICT,
            message=f"Secret {secret.name!r} exists, but the operator did not create it for this endpoint; "
            "rename or delete it.",
        )
    if valid_secret(secret.fields.get(SECRET_FIELD, "")):
        return None
    return EndpointVerdict(
        ready=False,
        reason=_INVALID,
        message=f"Secret {secret.name!r}: field 'secret' must be whsec_ and base64 of 24 to 64 bytes; "
        "correct it, or delete the Secret so that the operator creates a new one.",
    )


def _faulty_reference(reference: SecretRef, secret: Secret) -> EndpointVerdict | None:
    """Return what is wrong with a Secret that the tenant makes."""
    if secret.foreign:
        message = f"spec.signing.secretRef: Secret {secret.name!r} belongs to the operator; name one that you make."
        return EndpointVerdict(ready=False, reason=CONFLICT, message=message)
    if not secret.uid:
        message = f"spec.signing.secretRef: Secret {secret.name!r} does not exist; it is used when it is created."
        return EndpointVerdict(ready=False, reason=MISSING, message=message, stalled=False)
    if secret.fields and all(valid_secret(text, reference.encoding) for text in secret.fields.values()):
        return None
    form = "be a signing secret: whsec_ and base64 of 24 to 64 bytes; or up to four of them, separated by spaces."
    if reference.encoding == "raw":
        form = (
            "be a secret of 1 to 512 printable characters, or up to four, each on its line; and the Secret must have "
            f'the label {SIGNING_LABEL}: "true".'
        )
    message = f"spec.signing.secretRef: field {reference.key!r} of Secret {secret.name!r} must {form}"
    return EndpointVerdict(ready=False, reason=_INVALID, message=message)
