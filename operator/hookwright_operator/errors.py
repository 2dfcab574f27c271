"""Pure: the operator's errors.

::

    HookwrightError
    ├── SettingsError            a setting is wrong; the process does not start
    ├── KubeError                the API server answered with an error
    │   ├── KubeUnavailable      it did not answer, or answered 429 or 5xx
    │   └── NotLeading           it was not asked, for another process may lead
    ├── StoreError               the store refused or failed
    │   └── StoreUnavailable     it cannot take or give anything right now
    └── RefusedAddressError      the guard does not let an attempt connect there

The intake answers HTTP requests with problem documents; its `intake.problems.ProblemError` stands apart,
for it never leaves the intake.
"""


class HookwrightError(Exception):
    """Base of every error that the operator raises on purpose."""


class SettingsError(HookwrightError):
    """A setting is wrong; the message names it and what would be right."""


class KubeError(HookwrightError):
    """The API server answered a request with an error.

    Attributes:
        status: HTTP status code, 0 where there was no answer.
        reason: the ``reason`` of the answered Status object, such as ``AlreadyExists``.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class KubeUnavailable(KubeError):  # noqa: N818 - the condition, as in StoreUnavailable, not a fault of the caller
    """The API server cannot be reached or is overloaded; trying again later may help."""


class NotLeading(KubeError):  # noqa: N818
    """This process may not write to the cluster, for another one may lead; nothing was sent."""


class StoreError(HookwrightError):
    """The store refused or failed an operation."""


class StoreUnavailable(StoreError):  # noqa: N818
    """The store can take or give nothing right now: locked, full, closed or away."""


class RefusedAddressError(HookwrightError, OSError):
    """The guard refuses a network address; the message names it and the setting that would allow it."""
