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
    """A setting is wrong; the message names it and what would be right."""


class KubeError(HookwrightApiError):
    """The API server answered a request with an error.

    Attributes:
        status: HTTP status code, 0 where there was no answer.
        reason: the ``reason`` of the answered Status object, such as ``AlreadyExists``.
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
    """The API server cannot be reached or is overloaded; trying again later may help."""


class OperatorError(HookwrightApiError):
    """The operator refused a request.

    Attributes:
        status: HTTP status code of its answer, 0 where there was none.
        problem: its problem document.
        retry_after: seconds after which it wants to be asked again, where it said so.
    """

    def __init__(
        self, message: str, *, status: int = 0, problem: Mapping[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after


class OperatorUnavailable(OperatorError):  # noqa: N818
    """The operator cannot be reached, or cannot serve right now; trying again later may help."""


class LimitsUnavailable(HookwrightApiError):  # noqa: N818
    """The counters of the rate limits cannot be reached, and the settings say that nobody is let in then."""
