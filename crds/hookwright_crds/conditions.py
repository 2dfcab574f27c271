"""Pure: conditions after the Kubernetes API conventions (sig-architecture, "Typical status properties")."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

from pydantic import Field

from hookwright_crds.base import Model, Timestamp

Status = Literal["True", "False", "Unknown"]
SUSPENDED_AFTER_FAILURES: Final = "SuspendedAfterFailures"
"""The reason of Ready of an endpoint that the operator has suspended, by ``spec.suspendAfter``."""
CREDENTIALS_NOT_FOUND: Final = "CredentialsNotFound"
CREDENTIALS_REFUSED: Final = "CredentialsRefused"
CREDENTIALS_INVALID: Final = "CredentialsInvalid"
CREDENTIAL_FAULTS: Final = (CREDENTIALS_NOT_FOUND, CREDENTIALS_REFUSED, CREDENTIALS_INVALID)
"""The reasons of Ready of an endpoint whose credentials are missing, unfit or not for its host."""


class Condition(Model):
    """One observation of an object's state, with the time it last changed."""

    type: str = Field(description="Type of the condition, in CamelCase.", max_length=316)
    status: Status = Field(description="True, False or Unknown.")
    reason: str = Field(description="Reason as one CamelCase word, for programs.", max_length=1024)
    message: str = Field(default="", description="Reason as a sentence, for people.", max_length=32768)
    observed_generation: int = Field(default=0, description="The metadata.generation that this condition describes.")
    last_transition_time: Timestamp = Field(description="When the status last changed.")


def condition(
    type_: str, status: Status, reason: str, message: str = "", *, generation: int, now: datetime
) -> Condition:
    """Return a new condition; its transition time is ``now`` until it is merged with the previous conditions."""
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=now,
    )


def readiness(
    *, ready: bool, reason: str, message: str, stalled: bool, generation: int, now: datetime
) -> list[Condition]:
    """Return ``Ready`` and, if it is false, ``Stalled`` or ``Reconciling``, as kstatus reads them.

    An object with ``Stalled`` has failed until somebody changes it. One with ``Reconciling`` becomes ready by itself
    when the cause ends. Source: kubernetes-sigs/cli-utils, pkg/kstatus.

    Args:
        ready: whether everything declared is in effect.
        reason: one word, for programs.
        message: a sentence, for people.
        stalled: whether a change of the object, or of what it names, is necessary.
        generation: the ``metadata.generation`` that the conditions describe.
        now: their transition time, until they are merged.
    """

    def made(type_: str, status: Status) -> Condition:
        return condition(type_, status, reason, message, generation=generation, now=now)

    if ready:
        return [made("Ready", "True")]
    return [made("Ready", "False"), made("Stalled" if stalled else "Reconciling", "True")]


def turned_false(before: Sequence[Condition], after: Sequence[Condition], type_: str) -> Condition | None:
    """Return a condition that has just become false, or false for another reason; None otherwise."""
    old, new = find(before, type_), find(after, type_)
    if new is None or new.status != "False":
        return None
    return None if old is not None and (old.status, old.reason) == (new.status, new.reason) else new


def find(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """Return the condition of a type, or None."""
    return next((entry for entry in conditions if entry.type == type_), None)


def merge(before: Sequence[Condition], after: Sequence[Condition]) -> list[Condition]:
    """Return ``after``, but keep the old transition time of every condition whose status is unchanged."""
    result = []
    for new in after:
        old = find(before, new.type)
        is_unchanged = old is not None and old.status == new.status
        result.append(
            new.model_copy(update={"last_transition_time": old.last_transition_time}) if old and is_unchanged else new
        )
    return result
