"""Pure: reading of objects that a newer version has stored, as far as this version understands them.

During an upgrade and after a rollback, the cluster has objects with fields, event types and values that this version
does not know. Strict validation would refuse the whole object, and the object would get no events. So:

- an unknown field is ignored and reported;
- an unknown event type is ignored and reported, and the known types count;
- a known field with an unknown value makes the spec unusable: `Unsupported.faults` names it.

The operator writes the status itself and replaces it, so unknown parts of a status are ignored without a report.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from hookwright_crds.base import ProjectRef, ServerModel
from hookwright_crds.event_type_fields import EventTypeSpec
from hookwright_crds.events import EVENT_TYPES, EVERY_TYPE, is_subscription
from hookwright_crds.resources import (
    ApiKey,
    ApiKeySpec,
    EventType,
    Project,
    ProjectSpec,
    Resource,
    WebhookEndpoint,
    WebhookEndpointSpec,
)

R = TypeVar("R", bound=ServerModel)
Path = tuple[int | str, ...]

_ROUNDS: Final = 8
"""Each round removes one more level of unknown parts; specs and statuses have five levels."""
_NAME_LIMIT: Final = 5
_LONGEST: Final = 160
_GROUP: Final = "hookwright.dev/"
_PLACEHOLDER: Final[Mapping[type, Mapping[str, Any]]] = {
    Project: {},
    ApiKey: {"projectRef": {"name": "unknown"}, "handover": {"secretName": "unknown"}},
    WebhookEndpoint: {"projectRef": {"name": "unknown"}, "url": "https://example.com/", "events": [EVENT_TYPES[0]]},
    EventType: {"meaning": "unknown"},
}


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The parts of an object that this version does not understand.

    Attributes:
        fields: paths of unknown fields; they are ignored.
        events: unknown event types; the known types count.
        faults: paths of known fields, with the fault of their values; the spec is unusable.
    """

    fields: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields or self.events or self.faults)

    @property
    def ignored(self) -> str:
        """Return a sentence that names the ignored fields, empty if there are none."""
        return f"This version does not know and ignores {_listed(self.fields)}." if self.fields else ""

    @property
    def sentence(self) -> str:
        """Return sentences for a condition that name every fault, empty if there are none."""
        parts = []
        if self.faults:
            parts.append(f"This version does not understand {_listed(self.faults, separator='; ')}.")
        if self.events:
            parts.append(f"This version does not know the event types {_listed(self.events)} in spec.events.")
        return " ".join([*parts, self.ignored]).rstrip()


UNDERSTOOD: Final = Unsupported()


def read(model: type[R], body: Mapping[str, Any]) -> tuple[R, Unsupported]:
    """Read an object of the cluster; return it and its parts that this version does not understand.

    If `Unsupported.faults` is not empty, only the spec's project and the endpoint's events are usable. The events are
    those that the endpoint names, or every type if its list cannot be read.

    Raises:
        ValueError: even the metadata cannot be read.
    """
    try:
        return model.model_validate(body), UNDERSTOOD
    except ValidationError:
        return _Draft(body, model).read(model)


class _Draft:
    """Return a copy of an object without the parts that this version does not understand."""

    def __init__(self, body: Mapping[str, Any], model: type) -> None:
        spec, status = body.get("spec"), body.get("status")
        self.spec: dict[str, Any] = copy.deepcopy(spec) if isinstance(spec, dict) else {}
        self.body = {"metadata": body["metadata"], "spec": self.spec}
        if isinstance(status, dict):
            self.body["status"] = copy.deepcopy(status)
        self.fields: list[str] = []
        self.faults: list[str] = []
        self.events: list[str] = []
        self.types: list[str] = []
        if model is WebhookEndpoint and isinstance(events := self.spec.get("events"), list):
            self.types = [event for event in events if is_subscription(event)]
            self.events = [_shortened(str(event), 64) for event in events if not is_subscription(event)]
            # An endpoint with unknown types only is valid, and subscribes to no type that this version knows.
            self.spec["events"] = self.types or ([EVENT_TYPES[0]] if self.events else [])

    def read(self, model: type[R]) -> tuple[R, Unsupported]:
        for _ in range(_ROUNDS):
            try:
                return self._finished(model.model_validate(self.body))
            except ValidationError as error:
                # From the end, so that the positions of earlier list items stay valid.
                for fault in reversed(error.errors(include_url=False, include_context=False, include_input=False)):
                    self._remove(model, fault["loc"], fault["type"], fault["msg"])
        return self._finished(model.model_validate(self.body))

    def _remove(self, model: type, place: Path, kind: str, message: str) -> None:
        if place[:1] == ("status",):
            _drop(self.body, place[:-1] if kind == "missing" else place)
        elif place[:1] == ("spec",) and kind == "extra_forbidden":
            self.fields.append(_shortened(".".join(map(str, place)), 64))
            _drop(self.body, place)
        elif place[:1] == ("spec",) or not place:
            field = ".".join(map(str, place[:2])) or "spec"
            self.faults.append(_shortened(f"{field} ({message.removeprefix('Value error, ')})", _LONGEST))
            self.body["spec"] = dict(_PLACEHOLDER[model])

    def _finished(self, read: R) -> tuple[R, Unsupported]:
        resource: Any = read
        parts = Unsupported(*(tuple(dict.fromkeys(texts)) for texts in (self.fields, self.events, self.faults)))
        spec = resource.spec
        if self.faults:
            spec = self._unusable(resource)
        elif self.events and not self.types:
            spec = spec.model_copy(update={"events": ()})
        return read.model_copy(update={"spec": spec}), parts

    def _unusable(self, read: Resource) -> ProjectSpec | ApiKeySpec | WebhookEndpointSpec | EventTypeSpec:
        if isinstance(read, Project | EventType):
            return read.spec
        project = ProjectRef.model_construct(name=self._project(read))
        if isinstance(read, ApiKey):
            return ApiKeySpec.model_construct(project_ref=project)
        url = self.spec.get("url")
        return WebhookEndpointSpec.model_construct(
            project_ref=project,
            url=url if isinstance(url, str) else None,
            events=tuple(dict.fromkeys(self.types)) if self.types or self.events else (EVERY_TYPE,),
        )

    def _project(self, read: ApiKey | WebhookEndpoint) -> str:
        """Return the Project that the spec names, otherwise the Project that the operator set as the owner."""
        reference = self.spec.get("projectRef")
        name = reference.get("name") if isinstance(reference, dict) else None
        if isinstance(name, str):
            return name
        owners = [owner for owner in read.metadata.owner_references if owner.api_version.startswith(_GROUP)]
        return next((owner.name for owner in owners if owner.kind == "Project"), "")


def _drop(body: Any, place: Path) -> None:
    """Remove the value at a path; the path of an invalid map key ends in ``[key]``."""
    *way, last = [step for step in place if step != "[key]"]
    # An earlier fault of the same round may have removed it already.
    with suppress(KeyError, IndexError, TypeError):
        for step in way:
            body = body[step]
        del body[last]


def _listed(names: Sequence[str], *, separator: str = ", ") -> str:
    suffix = f" and {len(names) - _NAME_LIMIT} more" if len(names) > _NAME_LIMIT else ""
    return separator.join(names[:_NAME_LIMIT]) + suffix


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
