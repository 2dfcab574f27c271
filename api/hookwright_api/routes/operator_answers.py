"""What the operator answers to a route."""

from collections.abc import Awaitable
from typing import TypeVar

from hookwright_api.http.responses import from_operator
from hookwright_api.operator_client import OperatorError

T = TypeVar("T")


async def operator_answer(answer: Awaitable[T], what: str) -> T:
    """Return the operator's answer to a request about the object ``what``.

    Raises:
        ProblemError: the operator refused the request, or did not answer.
    """
    try:
        return await answer
    except OperatorError as error:
        raise from_operator(error, what) from None
