"""Pure: the API's errors.

::

    HookwrightApiError
    ├── SettingsError            a setting is wrong; the process does not start
    ├── ProblemError             a request is refused (see problems.py)
    ├── KubeError                the API server answered with an error
    │   └── KubeUnavailable      it did not answer, or answered 429 or 5xx
    ├── OperatorError            the operator answered with an error
    │   └── OperatorUnavailable  it did not answer, or cannot serve right now
    └── LimitsUnavailable        the counters of the rate limits cannot be reached
"""

from collections.abc import Mapping, Sequence
from typing import Any


class HookwrightApiError(Exception):
    """Base of every error that the API raises on purpose."""


class SettingsError(HookwrightApiError):
    """An error of a setting; the message names the setting and the correct form."""


class KubeError(HookwrightApiError):
    """An error that the API server returned for a request.

    Attributes:
        status: HTTP status code, 0 if there was no answer.
        reason: the ``reason`` of the returned Status object, such as ``AlreadyExists``.
        explanation: its ``message``.
        causes: its ``details.causes``: mappings with ``field`` and ``message``.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        explanation: str = "",
        causes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.explanation = explanation
        self.causes = causes


class KubeUnavailable(KubeError):  # noqa: N818 - the condition, not a fault of the caller
    """The state that the API server cannot be reached or is overloaded; a later retry may succeed."""


class OperatorError(HookwrightApiError):
    """The refusal of a request by the operator.

    Attributes:
        status: HTTP status code of its answer, 0 if there was none.
        problem: its problem document.
        retry_after: seconds until a retry, if the operator gave them.
    """

    def __init__(
        self, message: str, *, status: int = 0, problem: Mapping[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after


class OperatorUnavailable(OperatorError):  # noqa: N818
    """The state that the operator cannot be reached or cannot serve right now; a later retry may succeed."""


class LimitsUnavailable(HookwrightApiError):  # noqa: N818
    """The state that the counters of the rate limits cannot be reached and the settings then require a refusal."""
