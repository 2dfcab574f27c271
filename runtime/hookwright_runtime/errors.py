"""Pure: the operator's errors.

::

    HookwrightError
    ├── SettingsError            a setting is wrong; the process does not start
    ├── KubeError                the API server answered with an error
    │   ├── KubeUnavailable      it did not answer, or answered 429 or 5xx
    │   └── NotLeading           no request was sent, because another replica may lead
    ├── StoreError               the store refused or failed
    │   └── StoreUnavailable     it cannot read or write right now
    └── RefusedAddressError      the guard does not let an attempt connect there

The intake answers HTTP requests with problem documents; its `intake.problems.ProblemError` is not
part of this tree, because it never leaves the intake.
"""


class HookwrightError(Exception):
    """Base of every error that the operator raises on purpose."""


class SettingsError(HookwrightError):
    """An error of a setting; the message names the setting and the correct form."""


class KubeError(HookwrightError):
    """An error that the API server returned for a request.

    Attributes:
        status: HTTP status code, 0 if there was no answer.
        reason: the ``reason`` of the returned Status object, such as ``AlreadyExists``.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class KubeUnavailable(KubeError):  # noqa: N818 - the condition, as in StoreUnavailable, not a fault of the caller
    """The state that the API server cannot be reached or is overloaded; a later retry may succeed."""


class NotLeading(KubeError):  # noqa: N818
    """The refusal of a write because another replica may lead; no request was sent."""


class StoreError(HookwrightError):
    """A failed or refused operation of the store."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The state that the store cannot read or write right now: locked, full, closed or unreachable."""


class RefusedAddressError(HookwrightError, OSError):
    """The guard's refusal of a network address; the message names the address and the setting that would allow it."""
