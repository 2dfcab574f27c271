"""Unusual answers of the API server to reviews: each is a refusal."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.clock import Seconds

from hookwright_operator.intake import auth as module
from hookwright_operator.intake.auth import (
    ACCESS_REVIEWS,
    Access,
    Producer,
    ReviewAuth,
)
from hookwright_operator.intake.review_cache import Keeping
from hookwright_runtime import bounds
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
    with pytest.raises(ProblemError) as error:
        await ReviewAuth(Answers(status)).authenticate("Bearer token")
    assert error.value.status == 401


@pytest.mark.parametrize(
    "status", [None, {}, {"allowed": False}, {"allowed": "true"}, {"allowed": True, "denied": True}]
)
async def test_an_access_that_is_not_plainly_allowed_is_refused(status: object) -> None:
    """Answer 403 unless the review is allowed and not denied."""
    auth = ReviewAuth(Answers(access=status))
    caller = await auth.authenticate("Bearer token")
    with pytest.raises(ProblemError) as error:
        await auth.authorise(caller, ACCESS)
    assert error.value.status == 403


async def test_what_is_granted_for_one_thing_is_not_granted_for_another() -> None:
    """A cached answer is valid only for its token, verb, resource, namespace and name."""
    server = Answers(access={"allowed": True})
    auth = ReviewAuth(server)
    caller = await auth.authenticate("Bearer token")
    await auth.authorise(caller, ACCESS)
    server.access = {"allowed": False}
    await auth.authorise(caller, ACCESS)
    second = await auth.authenticate("Bearer other")
    for value, access in [(second, ACCESS), *((caller, ACCESS._replace(**{field: "x"})) for field in ACCESS._fields)]:
        with pytest.raises(ProblemError):
            await auth.authorise(value, access)


async def test_a_review_without_answer_counts_as_an_api_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging API server does not block requests without end."""

    class Hanging(Answers):
        async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
            await asyncio.Event().wait()
            return {}

    monkeypatch.setattr(module, "_REVIEW_SECONDS", 0.01)
    with pytest.raises(KubeUnavailable):
        await ReviewAuth(Hanging()).authenticate("Bearer token")


# ---- bounds of reviews in progress


class Held(Answers):
    """An API server that grants every access, and delays its answers while it is held."""

    def __init__(self) -> None:
        super().__init__(access={"allowed": True})
        self.asked = 0
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer once it is not held."""
        self.asked += 1
        await self.open.wait()
        return await super().post(path, body)

    @asynccontextmanager
    async def held(self, *requests: Any) -> AsyncIterator[list[int]]:
        """Begin requests that get no answer inside the context; yield the statuses of those that were refused."""
        self.open.clear()
        start = [asyncio.ensure_future(request) for request in requests]
        for _ in range(5):
            await asyncio.sleep(0)
        try:
            yield [refusal.status for task in start if task.done() and (refusal := task.exception())]
        finally:
            self.open.set()
            await asyncio.gather(*start, return_exceptions=True)


@pytest.fixture
def held() -> Held:
    """Return an API server that a test can hold."""
    return Held()


def account(namespace: str, name: str = "sender") -> Producer:
    """Return a ServiceAccount of a namespace."""
    username = f"system:serviceaccount:{namespace}:{name}"
    return Producer(username, username.encode(), {"user": username})


def event_access(namespace: str, project: object = "billing") -> Access:
    """Return the permission to send events of a project."""
    return Access("create", "projects", "events", namespace, str(project))


@pytest.mark.parametrize(
    ("username", "holder"),
    [
        ("system:serviceaccount:acme:sender", "system:serviceaccounts:acme"),
        ("system:serviceaccount:acme:other", "system:serviceaccounts:acme"),
        ("alice@example.com", "alice@example.com"),
        ("system:serviceaccounts", "system:serviceaccounts"),
    ],
)
def test_a_service_account_counts_as_its_namespace(username: str, holder: str) -> None:
    """Other users count by name."""
    assert Producer(username, b"", {}).holder == holder


async def test_service_accounts_of_a_namespace_share_one_bound_of_reviews(held: Held) -> None:
    """Two accounts that ask for distinct names get the places of one tenant."""
    auth, limit = ReviewAuth(held), bounds.ACCESS_REVIEWS.each
    accounts = [account("hostile", name) for name in ("one", "two")]
    asks = [auth.authorise(who, event_access("hostile", number)) for who in accounts for number in range(limit)]
    async with held.held(*asks) as refusals:
        assert refusals == [429] * limit
        assert held.asked == limit
        victim = asyncio.create_task(auth.authorise(account("acme"), event_access("acme")))
        await asyncio.sleep(0)
    await victim


async def test_reserved_reviews_serve_tenants_with_none_in_progress(held: Held) -> None:
    """Tenants at their bounds leave a place to each of 64 others."""
    auth = ReviewAuth(held)
    tenants = bounds.ACCESS_REVIEWS.total // bounds.ACCESS_REVIEWS.each
    hostile = [
        auth.authorise(account(f"hostile-{number % tenants}"), event_access("x", number))
        for number in range(bounds.ACCESS_REVIEWS.total)
    ]
    async with held.held(*hostile) as refusals:
        assert refusals == [503] * bounds.ACCESS_REVIEWS.reserved
        rest = [
            auth.authorise(account(f"t{number}"), event_access("x")) for number in range(bounds.ACCESS_REVIEWS.reserved)
        ]
        victims = [asyncio.ensure_future(other) for other in rest]
        await asyncio.sleep(0)
    assert await asyncio.gather(*victims) == [None] * len(victims)


async def test_the_addresses_of_a_network_of_ipv6_share_the_token_reviews_of_one(held: Held) -> None:
    """A client has at least a /64, so its addresses cannot use the places that are reserved for others."""
    auth, limit = ReviewAuth(held), bounds.TOKEN_REVIEWS.each
    hostile = [auth.authenticate(f"Bearer wrong-{n}", f"2001:db8::{n:x}") for n in range(2 * limit)]
    async with held.held(*hostile) as refusals:
        assert refusals == [429] * limit
        victim = asyncio.create_task(auth.authenticate("Bearer token", "2001:db8:0:1::1"))
        await asyncio.sleep(0)
    assert (await victim).username == SENDER["username"]


async def test_reviews_of_a_shared_caller_count_for_the_namespace_of_the_path(held: Held) -> None:
    """The API asks for the users of all tenants: one tenant at its bound costs the others nothing."""
    auth, api, limit = ReviewAuth(held), account("hookwright-system", "api"), bounds.ACCESS_REVIEWS.each
    for namespace in ("hostile-1", "hostile-2", "acme"):
        await auth.authorise(api, event_access(namespace))
    asks = [auth.authorise(api, event_access(f"hostile-{1 + n % 2}", n)) for n in range(3 * limit)]
    async with held.held(*asks) as refusals:
        assert refusals == [429] * limit
        victims = [asyncio.ensure_future(auth.authorise(api, event_access("acme", number))) for number in range(30)]
        await asyncio.sleep(0)
    assert await asyncio.gather(*victims) == [None] * 30


async def test_a_denial_ends_the_admission_to_a_namespace(held: Held) -> None:
    """A caller is admitted by a grant of this verb and resource, and by no other one."""
    auth, caller, access = ReviewAuth(held), account("partner"), event_access("acme")
    assert not auth.admits(caller, access)
    await auth.authorise(caller, access)
    assert auth.admits(caller, event_access("acme", "other"))
    assert not auth.admits(caller, access._replace(verb="get"))
    assert not auth.admits(caller, event_access("globex"))
    assert not auth.admits(account("partner", "two"), access)
    held.access = {"allowed": False}
    with pytest.raises(ProblemError):
        await auth.authorise(caller, event_access("acme", "other"))
    assert not auth.admits(caller, access)


async def test_a_stale_grant_serves_while_too_many_reviews_are_in_progress(held: Held) -> None:
    """A tenant at its own bound keeps its recent grants; a new question is a 429."""
    now = Seconds()
    auth, caller = ReviewAuth(held, now=now), account("acme")
    await auth.authorise(caller, event_access("acme"))
    now.now += 59.9
    asks = [auth.authorise(caller, event_access("acme", number)) for number in range(bounds.ACCESS_REVIEWS.each)]
    async with held.held(*asks) as refusals:
        assert refusals == []
        await auth.authorise(caller, event_access("acme"))
        now.now += 0.1
        with pytest.raises(ProblemError) as refusal:
            await auth.authorise(caller, event_access("acme"))
        assert refusal.value.status == 429
        assert int(refusal.value.headers["Retry-After"]) > 0


async def test_random_names_of_one_namespace_evict_no_grant_of_another(held: Held) -> None:
    """The cache is full of one tenant's grants, and another tenant's grant stays."""
    auth, victim = ReviewAuth(held, keeping=Keeping(size=20)), account("acme")
    await auth.authorise(victim, event_access("acme"))
    for number in range(100):
        await auth.authorise(account("hostile", f"sa-{number % 2}"), event_access("hostile", number))
    before = held.asked
    await auth.authorise(victim, event_access("acme"))
    assert held.asked == before


async def test_many_tokens_of_one_namespace_evict_no_token_of_another(held: Held) -> None:
    """A tenant that creates tokens without end loses its own."""
    auth = ReviewAuth(held, keeping=Keeping(size=20))
    await auth.authenticate("Bearer victim")
    held.token = {**GOOD, "user": {"username": "system:serviceaccount:hostile:sender"}}
    for number in range(100):
        await auth.authenticate(f"Bearer hostile-{number}")
    before = held.asked
    await auth.authenticate("Bearer victim")
    assert held.asked == before
