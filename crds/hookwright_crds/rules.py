"""Pure: the CEL rules of the CRDs, for constraints that a schema cannot express or cannot express readably.

Each rule has a counterpart in the models, except rules that compare with the previous object, which only the API server
knows. Values that could contain a credential are refused as ``FieldValueForbidden``, because then the server does not
repeat them.

Source: Kubernetes, "Common Expression Language in Kubernetes", with ``reason`` and ``fieldPath`` of 1.28.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hookwright_crds.base import DURATION_PATTERN, EARLIEST, LATEST, NAME_PATTERN, format_timestamp
from hookwright_crds.credential_fields import (
    FIELD_NAME_PATTERN,
    GRANT_PARAMS,
    GRANT_PARAMS_SENTENCE,
    PRINTABLE_PATTERN,
    WORD_PATTERN,
)
from hookwright_crds.endpoint_fields import (
    CLOUDEVENT_HEADERS_SENTENCE,
    CLOUDEVENTS,
    DAYS_PATTERN,
    HEADER_NAME_PATTERN,
    HEADER_VALUE_PATTERN,
    LEASE_BOUNDS,
    OVERLAP_BOUNDS,
    PUSH_FIELDS,
    PUSH_ONLY_SENTENCE,
    RESERVED_HEADERS,
    RETRY_AFTER_BOUNDS,
    SCHEDULE_BOUNDS,
    SCHEDULE_SENTENCE,
    SIGNATURE_HEADER_SENTENCE,
    SIGNATURE_RESERVED,
    TIMEOUT_BOUNDS,
    URL_OR_PULL_SENTENCE,
)
from hookwright_crds.events import (
    CLOUDEVENT_PREFIX,
    MAX_TYPE_LENGTH,
    OPERATIONAL_PREFIX,
    OWN_TYPE_SENTENCE,
    RESERVED_TYPES,
    SUBSCRIPTION_PATTERN,
)
from hookwright_crds.keys import DIGEST_PATTERN, KEY_ID_PATTERN
from hookwright_crds.resources import (
    AUTHORIZATION_SENTENCE,
    CREDENTIAL_FIELDS,
    DIGEST_NAME_SENTENCE,
    HEADERS_ONCE_SENTENCE,
    ROTATION_SENTENCE,
    TTL_BOUNDS,
    WebhookEndpointSpec,
)
from hookwright_crds.structural_schema import Schema, cel_text
from hookwright_crds.tls import HTTPS_PATTERN, TLS_SENTENCE
from hookwright_crds.urls import URL_RULES, UrlRule

FORBIDDEN: Final = "FieldValueForbidden"


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str
    """The error message for objects that break the rule; with ``is_computed``, a CEL expression that returns it."""
    is_computed: bool = False
    field: str = ""
    """The faulty field below the rule's path, such as ``.digest``; empty if the fault is at the path itself."""
    reason: str = ""

    def to_kubernetes(self) -> Schema:
        """Return the JSON form for a schema."""
        entry = {
            "rule": self.rule,
            "messageExpression" if self.is_computed else "message": self.message,
            "fieldPath": self.field,
            "reason": self.reason,
        }
        return {name: value for name, value in entry.items() if value}


SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    NAME_PATTERN: {
        "message": "must be a Kubernetes name: lower-case letters, digits, '-' and '.', "
        "with a letter or digit at the start and end and around each '.'",
    },
    DIGEST_PATTERN: {
        "message": "digest must be sha256: and 64 lower-case hexadecimal digits, never the key itself",
        "reason": FORBIDDEN,
    },
    SUBSCRIPTION_PATTERN: {
        "message": "must be a built-in event type such as delivered, a wildcard (*, wa_*, sms_*), or the name of an "
        "EventType such as invoice.paid"
    },
    DAYS_PATTERN: {"message": "must be a number of days from 1d to 30d, such as 5d"},
    FIELD_NAME_PATTERN: {"message": "must be a field of a Secret: letters, digits, '-', '_' and '.'"},
    HEADER_NAME_PATTERN: {"message": "header names must be 1 to 256 letters, digits or any of !#$%&'*+.^_`|~-"},
    HEADER_VALUE_PATTERN: {
        "message": "header values must not contain line breaks, tabs, other control characters "
        "or characters beyond ISO 8859-1",
        "reason": FORBIDDEN,
    },
    PRINTABLE_PATTERN: {"message": "must be printable ASCII characters", "reason": FORBIDDEN},
    WORD_PATTERN: {"message": "must be 1 to 256 printable ASCII characters without spaces"},
}
"""The error message for every pattern in the models."""


def _kept(field: str, sentence: str) -> Rule:
    """Return the rule that an optional field cannot be added, changed or removed after creation."""
    same = f"(!has(self.{field}) || self.{field} == oldSelf.{field})"
    return Rule(f"has(self.{field}) == has(oldSelf.{field}) && {same}", sentence, field=f".{field}", reason=FORBIDDEN)


def _duration(field: str, bounds: tuple[str, str], example: str) -> Rule:
    low, high = bounds
    return Rule(
        f"self != '' && self.matches({cel_text(DURATION_PATTERN)}) "
        f"&& duration(self) >= duration('{low}') && duration(self) <= duration('{high}')",
        f"{field} must be a duration from {low} to {high}, in hours, minutes and seconds, such as {example}",
    )


def _not_decreased(credential: str) -> Rule:
    return Rule(
        "self >= oldSelf",
        f"rotation cannot be decreased, because a lower value would rotate the {credential} once more; "
        "keep the present value, or increase it",
    )


def _url(rule: UrlRule) -> Rule:
    negation = "!" if rule.forbidden else ""
    reason = FORBIDDEN if rule.revealing else ""
    return Rule(f"{negation}self.matches({cel_text(rule.pattern)})", rule.sentence, reason=reason)


def _push_only(name: str) -> Rule:
    """Return the rule that an endpoint with ``pull`` has no such field, or its default, which the API server sets."""
    info = WebhookEndpointSpec.model_fields[name]
    field = info.alias or name
    is_set = info.default is not None and info.default_factory is None
    or_default = f" || self.{field} == {info.default!r}" if is_set else ""
    return Rule(
        f"!has(self.pull) || !has(self.{field}){or_default}", PUSH_ONLY_SENTENCE.format(field), field=f".{field}"
    )


_PROJECT_KEPT: Final = Rule(
    "self == oldSelf", "projectRef cannot be changed; create a new object for the other project", reason=FORBIDDEN
)
_EXPIRY: Final = Rule(
    f"self >= timestamp('{format_timestamp(EARLIEST)}') && self < timestamp('{format_timestamp(LATEST)}')",
    f"expiresAt must be a time from {format_timestamp(EARLIEST)} to before {format_timestamp(LATEST)}",
)


def _cel_list(names: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{name}'" for name in sorted(names)) + "]"


_RESERVED_NAMES: Final = _cel_list(RESERVED_HEADERS)

RULES: Final[Mapping[str, Mapping[str, tuple[Rule, ...]]]] = {
    "Project": {},
    "ApiKey": {
        "": (
            Rule(
                f"!has(self.spec.digest) || self.metadata.name.matches({cel_text(KEY_ID_PATTERN)})",
                DIGEST_NAME_SENTENCE,
                field=".spec.digest",
            ),
            Rule(
                "has(self.spec.handover) == has(oldSelf.spec.handover) "
                "&& (!has(self.spec.handover) || self.spec.handover == oldSelf.spec.handover || "
                "(has(oldSelf.status) && has(oldSelf.status.handover) && oldSelf.status.handover.state == 'Pending'))",
                "handover cannot be changed after the key is generated; create a new ApiKey",
                field=".spec.handover",
                reason=FORBIDDEN,
            ),
        ),
        "spec": (
            Rule("has(self.handover) != has(self.digest)", "exactly one of handover and digest must be set"),
            Rule(
                "!has(self.digest) || !has(self.rotation) || self.rotation == 0", ROTATION_SENTENCE, field=".rotation"
            ),
            _kept("digest", "digest cannot be changed, because it identifies the key; create a new ApiKey"),
        ),
        "spec.projectRef": (_PROJECT_KEPT,),
        "spec.rotation": (_not_decreased("key"),),
        "spec.overlap": (_duration("overlap", OVERLAP_BOUNDS, "1h or 24h"),),
        "spec.scopes": (
            Rule("self.all(scope, self.exists_one(other, other == scope))", "scopes must not name a scope twice"),
        ),
        "spec.handover.ttl": (_duration("ttl", TTL_BOUNDS, "30m, 1h or 1h30m"),),
        "spec.expiresAt": (_EXPIRY,),
    },
    "WebhookEndpoint": {
        "spec": (
            Rule(
                f"!has(self.headers) || !has(self.format) || self.format != '{CLOUDEVENTS}' "
                "|| !self.headers.exists(name, name.lowerAscii().startsWith('ce-'))",
                CLOUDEVENT_HEADERS_SENTENCE,
                field=".headers",
                reason=FORBIDDEN,
            ),
            Rule("has(self.url) != has(self.pull)", URL_OR_PULL_SENTENCE),
            *map(_push_only, PUSH_FIELDS),
            Rule(
                "!has(self.extraSignature) || [self.extraSignature.header.lowerAscii()].all(name, "
                f"!(name in {_cel_list(SIGNATURE_RESERVED)}) && !name.startsWith('ce-') "
                "&& !(has(self.headers) && self.headers.exists(other, other.lowerAscii() == name)))",
                SIGNATURE_HEADER_SENTENCE,
                field=".extraSignature",
                reason=FORBIDDEN,
            ),
            *map(_push_only, CREDENTIAL_FIELDS),
            Rule(
                "!has(self.oauth2) "
                "|| !(has(self.headers) && self.headers.exists(name, name.lowerAscii() == 'authorization')) && "
                "!(has(self.secretHeaders) "
                "&& self.secretHeaders.exists(header, header.name.lowerAscii() == 'authorization')) && "
                "!(has(self.extraSignature) && self.extraSignature.header.lowerAscii() == 'authorization')",
                AUTHORIZATION_SENTENCE,
                field=".oauth2",
            ),
            Rule(
                "!has(self.secretHeaders) || self.secretHeaders.map(header, header.name.lowerAscii()).all(name, "
                f"!(name in {_RESERVED_NAMES}) "
                f"&& !(has(self.format) && self.format == '{CLOUDEVENTS}' && name.startsWith('ce-')) "
                "&& self.secretHeaders.exists_one(header, header.name.lowerAscii() == name) "
                "&& !(has(self.extraSignature) && self.extraSignature.header.lowerAscii() == name) "
                "&& !(has(self.headers) && self.headers.exists(other, other.lowerAscii() == name)))",
                HEADERS_ONCE_SENTENCE,
                field=".secretHeaders",
                reason=FORBIDDEN,
            ),
            Rule(
                f"!has(self.tls) || (has(self.url) && self.url.matches({cel_text(HTTPS_PATTERN)}))",
                TLS_SENTENCE,
                field=".tls",
            ),
        ),
        "spec.projectRef": (_PROJECT_KEPT,),
        "spec.expiresAt": (_EXPIRY,),
        "spec.url": tuple(map(_url, URL_RULES)),
        "spec.oauth2.tokenUrl": tuple(map(_url, URL_RULES)),
        "spec.oauth2.endpointParams": (
            Rule(f"self.all(name, !(name in {[*GRANT_PARAMS]}))", GRANT_PARAMS_SENTENCE, reason=FORBIDDEN),
        ),
        "spec.pull.lease": (_duration("lease", LEASE_BOUNDS, "30s or 5m"),),
        "spec.retry.schedule": (
            Rule(
                f"self.all(delay, delay != '' && delay.matches({cel_text(DURATION_PATTERN)}) "
                f"&& duration(delay) >= duration('{SCHEDULE_BOUNDS[0]}')) "
                f"&& self.map(delay, duration(delay)).sum() <= duration('{SCHEDULE_BOUNDS[1]}')",
                SCHEDULE_SENTENCE,
            ),
        ),
        "spec.retry.retryAfterMax": (_duration("retryAfterMax", RETRY_AFTER_BOUNDS, "30s or 1h"),),
        "spec.events": (
            Rule(
                "self.all(event, self.exists_one(other, other == event))",
                "'events must not name an event type twice: ' "
                "+ self.filter(event, !self.exists_one(other, other == event))[0]",
                is_computed=True,
            ),
        ),
        "spec.signing.rotation": (_not_decreased("secret"),),
        "spec.timeout": (_duration("timeout", TIMEOUT_BOUNDS, "5s or 30s"),),
        "spec.signing.overlap": (_duration("overlap", OVERLAP_BOUNDS, "1h or 24h"),),
        "spec.headers": (
            Rule(
                f"!self.exists(name, name.lowerAscii() in {_RESERVED_NAMES})",
                f"'headers must not set ' + self.filter(name, name.lowerAscii() in {_RESERVED_NAMES})[0] "
                "+ ', which Hookwright or HTTP itself sets'",
                is_computed=True,
                reason=FORBIDDEN,
            ),
        ),
    },
    "EventType": {
        "": (
            Rule(
                f"self.metadata.name.size() <= {MAX_TYPE_LENGTH} "
                f"&& !(self.metadata.name in {_cel_list(RESERVED_TYPES)}) "
                f"&& !self.metadata.name.startsWith('{OPERATIONAL_PREFIX}') "
                f"&& !self.metadata.name.startsWith('{CLOUDEVENT_PREFIX}')",
                OWN_TYPE_SENTENCE,
            ),
        ),
    },
}
"""The rules of every kind by their path; the empty path is the object itself."""
