"""Pure: the errors of the operator and of the API.

::

    HookwrightError
    ├── SettingsError            a setting is wrong; the process does not start
    ├── KubeError                the API server answered with an error
    │   ├── KubeUnavailable      it did not answer, or answered 429 or 5xx
    │   ├── WriteRefused         it refused a write of the operator for an object, for example by a quota
    │   └── NotLeading           no request was sent, because another replica may lead
    ├── StoreError               the store refused or failed
    │   └── StoreUnavailable     it cannot read or write right now
    │       └── OutcomeUnknown   it was lost during COMMIT; in the operator's `store.database_errors`
    ├── IdConflictError          other content under an accepted id; in the operator's `services.events`
    ├── RefusedAddressError      the guard does not let an attempt connect there
    ├── ProblemError             a request is refused; in `problems`
    │   └── FullError            too many requests have a place or wait for one; in `places`
    └── LimitsUnavailable        the counters of the rate limits cannot be reached; in the API's `rate_limits`
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self


class HookwrightError(Exception):
    """Base of every error that the operator and the API raise on purpose."""


class SettingsError(HookwrightError):
    """An error of a setting; the message names the setting and the correct form."""


class KubeError(HookwrightError):
    """An error that the API server returned for a request.

    Attributes:
        status: HTTP status code, 0 if there was no answer.
        reason: the ``reason`` of the returned Status object, such as ``AlreadyExists``.
        explanation: its ``message``.
        causes: its ``details.causes``: mappings with ``field`` and ``message``.
        outcome_unknown: whether the request may write, and may have been done.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        explanation: str = "",
        causes: Sequence[Mapping[str, Any]] = (),
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.explanation = explanation
        self.causes = causes
        self.outcome_unknown = outcome_unknown

    def explained(self, explanation: str) -> Self:
        """Return the same error with another explanation, also in its message, and without causes."""
        if not self.explanation:
            return self
        return type(self)(
            str(self).replace(self.explanation, explanation),
            status=self.status,
            reason=self.reason,
            explanation=explanation,
            outcome_unknown=self.outcome_unknown,
        )


class KubeUnavailable(KubeError):  # noqa: N818 - the condition, as in StoreUnavailable, not a fault of the caller
    """The state that the API server cannot be reached or is overloaded; a later retry may succeed."""


class WriteRefused(KubeError):  # noqa: N818 - the condition, which only the tenant can end
    """The refusal of a write by a rule of the cluster: a quota, an admission policy, the end of a namespace."""


class NotLeading(KubeError):  # noqa: N818
    """The refusal of a write because another replica may lead; no request was sent."""


class StoreError(HookwrightError):
    """A failed or refused operation of the store."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The state that the store cannot read or write right now: locked, full, closed or unreachable."""


class RefusedAddressError(HookwrightError, OSError):
    """The guard's refusal of a network address; the message names the address and the setting that would allow it."""
