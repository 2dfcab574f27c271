"""Errors of commands: a sentence for the user, and the exit code."""

from enum import IntEnum
from typing import Self

_NEGATIVE = (
    "the answer is negative: `status` found a problem, a test or an event was not delivered, a signature does not match"
)


class ExitCode(IntEnum):
    """The exit code of the process, with its meaning. A code keeps its meaning."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Return a code."""
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    OK = 0, "the command did what it says"
    FAILED = 1, "an error that has no code of its own"
    USAGE = 2, "the command line is not valid"
    NOT_FOUND = (
        3,
        "a named object does not exist: an endpoint, project, namespace, delivery, key, user or context (404)",
    )
    FORBIDDEN = 4, "the credential is missing, refused, or has too few rights (401, 403)"
    CONFLICT = 5, "the present state contradicts the command (409, 412)"
    UNAVAILABLE = 6, "no answer, or a rate limit: try again later (429, 503)"
    INVALID = 7, "a value is refused (400, 413, 415, 422)"
    OTHER_WAY = 8, "the way in cannot do this verb; the message names the other one"
    NEGATIVE = 9, _NEGATIVE
    INTERRUPTED = 130, "interrupted by Ctrl-C"


_OF_STATUS = {
    **dict.fromkeys((400, 413, 415, 422), ExitCode.INVALID),
    **dict.fromkeys((401, 403), ExitCode.FORBIDDEN),
    404: ExitCode.NOT_FOUND,
    **dict.fromkeys((409, 412), ExitCode.CONFLICT),
    **dict.fromkeys((429, 503), ExitCode.UNAVAILABLE),
}


def exit_code_of(status: int) -> ExitCode:
    """Return the exit code for the status of an HTTP answer."""
    return _OF_STATUS.get(status, ExitCode.UNAVAILABLE if status >= 502 else ExitCode.FAILED)


class CommandError(Exception):
    """An error that ends a command. Every function raises it for what it cannot do, with words for the user.

    Attributes:
        code: the exit code.
        problem: the ``code`` of a problem document, empty for an error of this program.
        status: the HTTP status, 0 if there was no answer.
        retry_after: seconds until a retry, None if the service gave none.
        hint: the next command, empty if there is none.
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
        self.code, self.problem, self.status = code, problem, status
        self.retry_after, self.hint = retry_after, hint
