"""Failed logins: an attacker is slowed down, and the account stays open for its user."""

import asyncio
from typing import Self

import httpx
import pytest
from integration.api import conftest as shared
from integration.api.conftest import PROXY, Organizations, StartApi
from support.api_processes import PASSWORD, Organization, problem_of
from support.polling import PATIENCE, eventually

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_runtime.bounds import PASSWORDS

control_plane, operator = shared.control_plane, shared.operator
api, client = shared.api, shared.client
organizations, start_api = shared.organizations, shared.start_api


class Logins:
    """Logins through one API, from any address."""

    def __init__(self, api: ApiProcess, client: httpx.Client) -> None:
        self._api = api
        self._client = client

    def answer(self, address: str, email: str, password: str) -> httpx.Response:
        """Log in from an address."""
        body = {"email": email, "password": password}
        return self._client.post("/v1/auth/login", json=body, headers={"X-Forwarded-For": address})

    def statuses(self, address: str, email: str, password: str, *, times: int) -> list[int]:
        """Log in several times and return the statuses."""
        return [self.answer(address, email, password).status_code for _ in range(times)]

    def refused(self) -> float:
        """Return how many logins the metrics count as refused."""
        return self._api.metric("hookwright_rate_limit_rejections_total", scope="login")


@pytest.fixture(scope="module")
def limited(start_api: StartApi) -> tuple[ApiProcess, httpx.Client]:
    """Start an API that lets 20 failures of one email through. Each test has addresses of its own."""
    return start_api({**PROXY, "HOOKWRIGHT_RATE_LIMIT_LOGIN_EMAIL": "20"})


@pytest.fixture
def victim(limited: tuple[ApiProcess, httpx.Client], organizations: Organizations) -> tuple[Logins, Organization]:
    """Return an account, seen through the API with limits."""
    organization = organizations.new("victim")
    session = organization.session()
    api, client = limited
    eventually(lambda: client.get("/v1/auth/me", headers=session).status_code == 200, "this API knows the user")
    return Logins(api, client), organization


def test_ten_wrong_passwords_do_not_lock_an_account_out_from_another_address(
    victim: tuple[Logins, Organization],
) -> None:
    """The attacker's address is refused from the 11th attempt; the user's logins from another one are not counted."""
    logins, account = victim
    before = logins.refused()
    assert logins.statuses("203.0.113.1", account.email, "wrong", times=12) == [401] * 10 + [429] * 2
    assert logins.answer("203.0.113.1", account.email, PASSWORD).status_code == 429
    assert logins.refused() == before + 3
    assert logins.statuses("198.51.100.7", account.email, PASSWORD, times=12) == [200] * 12


def test_addresses_of_one_ipv6_network_share_one_count(victim: tuple[Logins, Organization]) -> None:
    """A client has a whole /64, so another address of it gives no further guesses."""
    logins, account = victim
    statuses = [logins.answer(f"2001:db8:1::{n:x}", account.email, "wrong").status_code for n in range(1, 13)]
    assert statuses == [401] * 10 + [429] * 2
    assert logins.answer("2001:db8:2::1", account.email, PASSWORD).status_code == 200


def test_guesses_from_many_addresses_are_bounded_for_each_email(victim: tuple[Logins, Organization]) -> None:
    """30 guesses from 30 addresses: 20 are checked. Another spelling of the email is the same email."""
    logins, account = victim
    spellings = (account.email, account.email.upper(), f" {account.email} ")
    statuses = [logins.answer(f"192.0.2.{n + 1}", spellings[n % 3], "wrong").status_code for n in range(30)]
    assert statuses == [401] * 20 + [429] * 10
    assert logins.answer("198.51.100.8", "nobody@example.com", "wrong").status_code == 401


def test_one_address_cannot_try_a_password_on_many_emails(victim: tuple[Logins, Organization]) -> None:
    """A new email at each attempt gives no further attempts."""
    logins, _ = victim
    statuses = [logins.answer("203.0.113.2", f"nobody-{n}@example.com", "wrong").status_code for n in range(12)]
    assert statuses == [401] * 10 + [429] * 2


def test_an_email_without_an_account_is_counted_and_answered_like_one_with_an_account(
    victim: tuple[Logins, Organization],
) -> None:
    """Status, title and headers do not depend on whether an account exists, before and after the limit."""
    logins, account = victim
    results = []
    for address, email in (("203.0.113.3", account.email), ("203.0.113.4", "nobody@example.com")):
        answers = [logins.answer(address, email, "wrong") for _ in range(11)]
        problem_of(answers[-1], 429)
        results.append(
            [(one.status_code, one.headers["x-ratelimit-remaining"], one.json()["title"]) for one in answers]
        )
    assert results[0] == results[1]


class Flood:
    """Wrong passwords from many addresses; each connection sends the next one as soon as it is answered.

    A connection ends when it is refused, so each address keeps as many as it may have.
    """

    ADDRESSES = 5
    CONNECTIONS = 4
    """Of each address."""

    def __init__(self, api: ApiProcess) -> None:
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=PATIENCE, limits=limits)
        self._change = asyncio.Event()
        self.checked = 0
        self.refused: dict[str, list[httpx.Response]] = {}

    async def __aenter__(self) -> Self:
        """Start; return when each address has only the connections that it may have."""
        addresses = [f"192.0.2.{number + 1}" for number in range(self.ADDRESSES)]
        self._tasks = [asyncio.create_task(self._send(address)) for address in addresses * self.CONNECTIONS]
        total = self.ADDRESSES * (self.CONNECTIONS - PASSWORDS.each)
        async with asyncio.timeout(PATIENCE):
            while sum(map(len, self.refused.values())) < total:
                self._change.clear()
                await self._change.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def log_in(self, address: str, email: str, password: str) -> httpx.Response:
        """Log in from an address."""
        body = {"email": email, "password": password}
        return await self._client.post("/v1/auth/login", json=body, headers={"X-Forwarded-For": address})

    async def _send(self, address: str) -> None:
        while (answer := await self.log_in(address, "nobody@example.com", "wrong")).status_code == 401:
            self.checked += 1
        self.refused.setdefault(address, []).append(answer)
        self._change.set()


@pytest.mark.slow
async def test_a_good_login_waits_for_one_wrong_password_of_each_other_address(
    start_api: StartApi, organizations: Organizations
) -> None:
    """20 connections of 5 addresses send wrong passwords: each address keeps 2, and a good login waits one round."""
    limits = {"IP": "1000000", "ORGANIZATION": "0", "LOGIN": "0", "LOGIN_EMAIL": "0"}
    api, client = start_api({**PROXY, **{f"HOOKWRIGHT_RATE_LIMIT_{name}": limit for name, limit in limits.items()}})
    account = organizations.new("victim", client)
    account.session()
    async with Flood(api) as flood:
        waits = []
        for _ in range(3):
            before = flood.checked
            assert (await flood.log_in("198.51.100.7", account.email, PASSWORD)).status_code == 200
            waits.append(flood.checked - before)
        # It is two rounds if addresses take no turns. The lowest value is the one that the client delayed least.
        assert min(waits) < 1.5 * Flood.ADDRESSES, waits
        assert {len(answers) for answers in flood.refused.values()} == {Flood.CONNECTIONS - PASSWORDS.each}
        for answer in (answer for answers in flood.refused.values() for answer in answers):
            assert "has 2 checks of passwords in progress" in problem_of(answer, 429)["detail"]
            assert (answer.headers["retry-after"], answer.headers["x-ratelimit-limit"]) == ("1", "1000000")
            assert int(answer.headers["x-ratelimit-remaining"]) < 1_000_000
