"""Unusual answers of the API server to reviews: each is a refusal."""

import asyncio
from typing import Any

import pytest

from hookwright_operator.intake import auth as module
from hookwright_operator.intake.auth import ACCESS_REVIEWS, Access, ReviewAuth
from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.problems import ProblemError

SENDER = {"username": "system:serviceaccount:acme:sender"}
GOOD: dict[str, Any] = {"authenticated": True, "audiences": ["hookwright"], "user": SENDER}
ACCESS = Access("create", "projects", "events", "acme", "billing")


class Answers(KubernetesClient):
    """A client of an API server with prepared answers, which no real one gives."""

    def __init__(self, token: object = GOOD, access: object = None) -> None:
        self.token = token
        self.access = access

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - the client's
        """Answer."""
        return {"status": self.access if path == ACCESS_REVIEWS else self.token}


@pytest.mark.parametrize(
    "status",
    [
        None,
        {},
        {**GOOD, "authenticated": False},
        {**GOOD, "authenticated": "true"},
        {**GOOD, "audiences": ["https://kubernetes.default.svc"]},
        {**GOOD, "audiences": []},
        {"authenticated": True, "user": SENDER},
        {"authenticated": True, "audiences": ["hookwright"]},
        {**GOOD, "user": {"username": ""}},
    ],
)
async def test_a_token_without_full_proof_is_refused(status: object) -> None:
    """Answer 401 unless the review is authenticated, has Hookwright's audience and a user name."""
    with pytest.raises(ProblemError) as caught:
        await ReviewAuth(Answers(status)).authenticate("Bearer token")
    assert caught.value.status == 401


@pytest.mark.parametrize(
    "status", [None, {}, {"allowed": False}, {"allowed": "true"}, {"allowed": True, "denied": True}]
)
async def test_an_access_that_is_not_plainly_allowed_is_refused(status: object) -> None:
    """Answer 403 unless the review is allowed and not denied."""
    auth = ReviewAuth(Answers(access=status))
    caller = await auth.authenticate("Bearer token")
    with pytest.raises(ProblemError) as caught:
        await auth.authorise(caller, ACCESS)
    assert caught.value.status == 403


async def test_what_is_granted_for_one_thing_is_not_granted_for_another() -> None:
    """A cached answer is valid only for its token, verb, resource, namespace and name."""
    server = Answers(access={"allowed": True})
    auth = ReviewAuth(server)
    caller = await auth.authenticate("Bearer token")
    await auth.authorise(caller, ACCESS)
    server.access = {"allowed": False}
    await auth.authorise(caller, ACCESS)
    other = await auth.authenticate("Bearer other")
    for who, access in [(other, ACCESS), *((caller, ACCESS._replace(**{field: "x"})) for field in ACCESS._fields)]:
        with pytest.raises(ProblemError):
            await auth.authorise(who, access)


async def test_a_review_without_answer_counts_as_an_api_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging API server does not block requests without end."""

    class Hanging(Answers):
        async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
            await asyncio.Event().wait()
            return {}

    monkeypatch.setattr(module, "_REVIEW_SECONDS", 0.01)
    with pytest.raises(KubeUnavailable):
        await ReviewAuth(Hanging()).authenticate("Bearer token")
