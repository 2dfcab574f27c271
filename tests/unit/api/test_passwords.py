"""Turns at the password threads: between addresses, with bounds, and never lost."""

import asyncio

import pytest

from hookwright_api.auth.passwords import PASSWORDS, PASSWORDS_OF_ADDRESS, Passwords
from hookwright_runtime.problems import ProblemError


class Logins:
    """Logins that keep their turn until the test ends it."""

    def __init__(self) -> None:
        self._passwords = Passwords()
        self.begun: list[str] = []
        self._ends: dict[asyncio.Event, None] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *addresses: str) -> list["asyncio.Task[None]"]:
        """Start one login of each address, in this order."""
        tasks = [asyncio.create_task(self._log_in(address)) for address in addresses]
        self._tasks += tasks
        await self.settle()
        return tasks

    async def end(self) -> None:
        """End the oldest login that has its turn."""
        next(iter(self._ends)).set()
        await self.settle()

    async def settle(self) -> None:
        """Let every task go on that can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def _log_in(self, address: str) -> None:
        async with self._passwords.turn(address):
            ended = asyncio.Event()
            self._ends[ended] = None
            self.begun.append(address)
            try:
                await ended.wait()
            finally:
                del self._ends[ended]

    async def close(self) -> None:
        """End everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._passwords.close()


async def test_a_login_waits_for_one_password_of_each_other_address() -> None:
    """Ten addresses have two passwords each; the eleventh address comes last and is checked after one round."""
    logins = Logins()
    crowd = [f"10.0.0.{number}" for number in range(10)]
    await logins.start(*crowd, *crowd, "good")
    assert logins.begun == crowd[:2]
    while "good" not in logins.begun:
        await logins.end()
    assert logins.begun == [*crowd, *crowd[:2], "good"]
    await logins.close()


async def test_the_third_password_of_an_address_is_refused_at_once() -> None:
    """Checked and waiting ones count; another address is served, and so is this one when a password is done."""
    logins = Logins()
    assert PASSWORDS_OF_ADDRESS == 2
    *_, third = await logins.start("a", "a", "a")
    refused = third.exception()
    assert isinstance(refused, ProblemError)
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    assert "2 passwords from this address" in refused.detail
    await logins.start("b")
    await logins.end()
    assert logins.begun == ["a", "a", "b"]
    [again] = await logins.start("a")
    assert not again.done()
    await logins.close()


async def test_all_addresses_together_have_a_bound() -> None:
    """The login beyond it is a 503 that says when to come back."""
    logins = Logins()
    await logins.start(*(str(number) for number in range(PASSWORDS)))
    [refused] = await logins.start("good")
    with pytest.raises(ProblemError) as problem:
        await refused
    assert problem.value.status == 503
    assert problem.value.headers["Retry-After"]
    await logins.end()
    [served] = await logins.start("good")
    assert not served.done()
    await logins.close()


@pytest.mark.parametrize("iterations", range(4))
async def test_a_cancelled_login_keeps_no_place(iterations: int) -> None:
    """Neither while it waits, nor during its turn, nor in any moment in which its turn comes.

    Args:
        iterations: of the event loop, from the end of one login to the cancellation of the next one.
    """
    logins = Logins()
    first, _ = await logins.start("a", "a")
    waiting, following = await logins.start("b", "c")
    waiting.cancel()
    await logins.settle()
    first.cancel()
    for _ in range(iterations):
        await asyncio.sleep(0)
    following.cancel()
    await logins.settle()
    assert first.cancelled()
    await logins.end()
    await logins.start("d", "e", "f")
    assert [address for address in logins.begun if address != "c"] == ["a", "a", "d", "e"]
    await logins.close()
