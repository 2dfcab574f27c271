"""Errors of commands: a sentence for the user, and the exit code.

``CommandError`` is the one tree. `OtherWayError` says that `/v1` cannot do a verb.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of the process. A code keeps its meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    FORBIDDEN = 4
    CONFLICT = 5
    UNAVAILABLE = 6
    INVALID = 7
    OTHER_WAY = 8
    NEGATIVE = 9
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.OK: "the command did what it says",
    ExitCode.FAILED: "an error that has no code of its own",
    ExitCode.USAGE: "the command line is not valid",
    ExitCode.NOT_FOUND: "the object does not exist (404)",
    ExitCode.FORBIDDEN: "the credential is missing, refused, or has too few rights (401, 403)",
    ExitCode.CONFLICT: "the present state contradicts the command (409, 412)",
    ExitCode.UNAVAILABLE: "no answer, or a rate limit: try again later (429, 503)",
    ExitCode.INVALID: "a value is refused (400, 413, 415, 422)",
    ExitCode.OTHER_WAY: "the way in cannot do this verb; the message names the other one",
    ExitCode.NEGATIVE: "the answer is negative: `status` found a problem, a test or an event was not delivered, a "
    "signature does not match",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
}

_OF_STATUS = {
    400: ExitCode.INVALID,
    401: ExitCode.FORBIDDEN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    413: ExitCode.INVALID,
    415: ExitCode.INVALID,
    422: ExitCode.INVALID,
    429: ExitCode.UNAVAILABLE,
    503: ExitCode.UNAVAILABLE,
}


def exit_code_of(status: int) -> ExitCode:
    """Return the exit code for the status of an HTTP answer."""
    return _OF_STATUS.get(status, ExitCode.UNAVAILABLE if status >= 502 else ExitCode.FAILED)


class CommandError(Exception):
    """An error that ends a command.

    Attributes:
        code: the exit code.
        problem: the ``code`` of a problem document, empty for an error of this program.
        status: the HTTP status, 0 if there was no answer.
        retry_after: seconds until a retry, None if the service gave none.
        hint: the next command, empty if there is none.
        way: the way that the command used and how to leave it, empty if the command used none.
    """

    def __init__(
        self,
        message: str,
        code: ExitCode = ExitCode.FAILED,
        *,
        problem: str = "",
        status: int = 0,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.problem = problem
        self.status = status
        self.retry_after = retry_after
        self.hint = hint
        self.way = ""


class OtherWayError(CommandError):
    """A verb of which only a kubeconfig is capable."""

    def __init__(self, verb: str) -> None:
        advice = "use --way=kubeconfig, with a kubeconfig of the cluster"
        super().__init__(f"{verb} does not work through /v1", ExitCode.OTHER_WAY, hint=advice)
