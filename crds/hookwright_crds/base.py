"""Pure: the common parts of all models: field naming, metadata, paths, durations, timestamps."""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
)
from pydantic.alias_generators import to_camel

from hookwright_crds import API_VERSION

DURATION_PATTERN: Final = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$"
"""Five digits a unit: enough for every use, and few enough that no number of seconds overflows."""
NAME_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""RFC 1123 subdomain, the form of a Kubernetes object name."""
MAX_NAME_LENGTH: Final = 253
ObjectName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "hookwright"
"""The value of that label on the operator's Secrets."""
CREDENTIAL_LABEL: Final = "hookwright.dev/delivery-credential"
"""The label, with the value ``true``, of a Secret or ConfigMap that its tenant offers for deliveries."""
HOSTS_ANNOTATION: Final = "hookwright.dev/hosts"
"""On such a Secret: the hosts that may get it, separated by commas; ``*.example.org`` means those below a domain."""
MADE_BY_API: Final = {MANAGED_BY: "hookwright-api"}
"""Labels of the objects that ``/v1`` created; such an object is deleted with its Project."""
MADE_BY_TOOLS: Final = frozenset({"hookwright-api", "hookwright-cli"})
"""Values of that label on endpoints that ``/v1`` and the command line create; they are deleted when they expire."""

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""The range of times that a datetime can hold in every time zone."""

_TIMESTAMP_FORMAT: Final = "%Y-%m-%dT%H:%M:%SZ"
_DURATION: Final = re.compile(DURATION_PATTERN)
_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class Model(BaseModel):
    """Base class of the models: camelCase in JSON, frozen, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    def to_kubernetes(self) -> dict[str, Any]:
        """Return the JSON form that goes to the API server: camelCase, without unset optional fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class ServerModel(Model):
    """A model of fields that the API server sets; fields that are not declared here are ignored."""

    model_config = ConfigDict(extra="ignore")


def object_path(plural: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """Return the path of a custom resource, or of their list in one namespace or in all."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (f"/apis/{API_VERSION}{within}/{plural}", name, subresource)))


def secrets_path(namespace: str | None = None, name: str = "") -> str:
    """Return the path of a Secret, or of their list in one namespace or in all."""
    return core_path("secrets", namespace, name)


def core_path(plural: str, namespace: str | None = None, name: str = "") -> str:
    """Return the path of an object of Kubernetes itself, or of their list in one namespace or in all."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (f"/api/v1{within}/{plural}", name)))


def name_of_child(owner: str, suffix: str) -> str:
    """Return the name of an object that belongs to another one, shortened with a hash if it would be too long."""
    if len(owner) + len(suffix) <= MAX_NAME_LENGTH:
        return owner + suffix
    digest = hashlib.sha256(owner.encode()).hexdigest()[:12]
    return f"{owner[: MAX_NAME_LENGTH - len(suffix) - 13].rstrip('-.')}-{digest}{suffix}"


def at_most(number: int) -> BeforeValidator:
    """Return a validator that refuses a map or list with more entries before any entry is validated."""

    def check(entries: Any) -> Any:
        if isinstance(entries, (dict, list, tuple)) and len(entries) > number:
            raise ValueError(f"has {len(entries)} entries; at most {number} are accepted")
        return entries

    return BeforeValidator(check)


@lru_cache(1024)
def parse_duration(text: str) -> timedelta:
    """Return the length of a duration such as ``30s``, ``1h`` or ``1h30m``.

    Raises:
        ValueError: the text is not a duration of this form.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration; write hours, minutes and seconds as in 15s, 2m or 1h30m")
    hours, minutes, seconds = (int(group[:-1]) if group else 0 for group in match.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _checked_duration(text: str) -> str:
    parse_duration(text)
    return text


def within(name: str, bounds: tuple[str, str]) -> AfterValidator:
    """Return a validator of a duration from the first to the second bound; its fault names the field."""
    low, high = map(parse_duration, bounds)

    def check(text: str) -> str:
        if not low <= parse_duration(text) <= high:
            raise ValueError(f"{name} must be from {bounds[0]} to {bounds[1]}")
        return text

    return AfterValidator(check)


def format_timestamp(moment: datetime) -> str:
    """Return RFC 3339 in UTC with whole seconds and ``Z``, as Kubernetes writes times."""
    return moment.astimezone(UTC).strftime(_TIMESTAMP_FORMAT)


def parse_timestamp(text: str) -> datetime:
    """Return the time of a text that `format_timestamp` wrote.

    Raises:
        ValueError: the text is not a time of this form.
    """
    return datetime.strptime(text, _TIMESTAMP_FORMAT).replace(tzinfo=UTC)


def _written_as_time(value: object) -> object:
    """Refuse forms that pydantic accepts and the API server refuses, such as seconds since the epoch."""
    if isinstance(value, datetime) or (isinstance(value, str) and _TIMESTAMP.fullmatch(value)):
        return value
    raise ValueError("must be a time with its zone (RFC 3339), such as 2030-01-31T12:00:00Z")


def _whole_seconds_in_utc(moment: datetime) -> datetime:
    if not EARLIEST <= moment < LATEST:
        raise ValueError(f"must be a time from {format_timestamp(EARLIEST)} to before {format_timestamp(LATEST)}")
    return moment.astimezone(UTC).replace(microsecond=0)


Duration = Annotated[str, Field(max_length=18), AfterValidator(_checked_duration)]
Timestamp = Annotated[
    AwareDatetime,
    BeforeValidator(_written_as_time),
    AfterValidator(_whole_seconds_in_utc),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]


class OwnerReference(ServerModel):
    """The fields of an ownerReference that identify the owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(ServerModel):
    """The part of ``metadata`` that Hookwright reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class ProjectRef(Model):
    """The Project, in the same namespace, that an object belongs to."""

    name: ObjectName = Field(description="Name of the Project.")
