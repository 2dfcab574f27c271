"""Calls of the functions of ``/v1`` by pages, in process."""

from collections.abc import Awaitable
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.requests import Request

from hookwright_api.console.visits import Operation, visit_in
from hookwright_api.http.guarded_route import caller_of, permission_of
from hookwright_runtime.problems import ProblemError

T = TypeVar("T")


async def call(request: Request, operation: Operation, *arguments: Any, **options: Any) -> Any:
    """Call the function of a route of ``/v1``, and return the JSON document of its answer; None if it has no body.

    Args:
        request: of the page; its caller is the user of the session.
        operation: the function; the page must have declared it in ``uses``.
        arguments: path parameters and the body, as the function takes them.
        options: further parameters.

    Raises:
        ProblemError: the refusal of ``/v1``; 403, the user lacks the permission of the function.
        RuntimeError: the page has not declared the function.
    """
    if operation not in visit_in(request.scope).uses:
        raise RuntimeError(f"{request.url.path} calls {operation.__name__}, which `uses` does not name")
    permission = permission_of(operation)
    if not permission.open:
        caller_of(request).check(permission)
    answer = await operation(request, *arguments, **options)
    return from_json(answer.body) if answer.body else None


async def attempt(known: Awaitable[T]) -> tuple[T | None, ProblemError | None]:
    """Return a part of a page, or the reason why it is missing.

    Raises:
        ProblemError: the reason is an error of the person, not the state of a service.
    """
    try:
        return await known, None
    except ProblemError as problem:
        if problem.status < 500 and problem.status != 429:
            raise
        return None, problem
