"""Requests that the operator answers."""

from collections.abc import Awaitable, Mapping
from typing import TypeVar

from fastapi import Request

from hookwright_api.http.guarded_route import caller_of
from hookwright_api.http.responses import from_operator
from hookwright_api.operator_client import OperatorError
from hookwright_api.services import services_of

T = TypeVar("T")


async def forward(
    request: Request,
    what: str,
    *parts: str,
    method: str = "GET",
    content: bytes | None = None,
    params: Mapping[str, str | None] | None = None,
) -> bytes:
    """Return the operator's JSON answer to a request of the caller's organization.

    Args:
        request: of the caller.
        what: the object of the request, for the words of an error.
        parts: of the operator's path after the namespace.
        method: of the operator's route.
        content: JSON.
        params: the query; a value of None is left out.

    Raises:
        ProblemError: the operator refused the request, or did not answer.
    """
    query = {name: value for name, value in (params or {}).items() if value is not None}
    sent = services_of(request).operator.forward(
        method, caller_of(request).organization, *parts, content=content, params=query
    )
    return await operator_answer(sent, what)


async def operator_answer(answer: Awaitable[T], what: str) -> T:
    """Return the operator's answer to a request about the object ``what``.

    Raises:
        ProblemError: the operator refused the request, or did not answer.
    """
    try:
        return await answer
    except OperatorError as error:
        raise from_operator(error, what) from None
