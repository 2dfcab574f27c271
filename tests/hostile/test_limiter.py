"""The rate limiter beside a crowd of addresses: neither its memory nor the cost of a request grows with them."""

import asyncio
import time

from hookwright_api.rate_limits import Limiter, Scope, WindowStorage
from hookwright_api.settings import ApiSettings

CROWD = 20_000


def local(limiter: Limiter, scope: Scope) -> WindowStorage:
    """Return the storage of a scope."""
    storage = limiter._local[scope].storage
    assert isinstance(storage, WindowStorage)
    return storage


async def crowd(limiter: Limiter, *, first: int = 0, size: int = CROWD) -> None:
    """Count one request of each of many addresses."""
    for number in range(first, first + size):
        await limiter.hit(Scope.IP, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")


async def cost(limiter: Limiter, *, requests: int = 300) -> float:
    """Return the CPU seconds of one request of an address, all threads of the process included."""
    began = time.process_time()
    for number in range(requests):
        await limiter.hit(Scope.IP, f"198.51.100.{number % 3}")
    return (time.process_time() - began) / requests


async def test_a_request_costs_the_same_beside_twenty_thousand_addresses() -> None:
    """No sweep of all addresses: the cost is compared with that of a limiter that knows three."""
    quiet, busy = Limiter(ApiSettings()), Limiter(ApiSettings())
    await crowd(busy)
    alone = min([await cost(quiet) for _ in range(5)])
    beside = min([await cost(busy) for _ in range(5)])
    assert beside < 5 * alone, f"{beside * 1e6:.0f} us beside {CROWD} addresses, {alone * 1e6:.0f} us alone"


async def test_a_request_leaves_no_sweep_of_all_addresses_to_the_event_loop() -> None:
    """The cost above is the whole cost: no task is left that goes through the addresses."""
    limiter = Limiter(ApiSettings())
    await crowd(limiter, size=1000)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_number_of_remembered_addresses_is_bounded() -> None:
    """Beyond the bound the address that was counted longest ago is forgotten, and a busy one is not."""
    storage = WindowStorage(now=time.time, max_identities=100)
    for number in range(1000):
        assert await storage.acquire_entry(f"crowd-{number}", 3, 60)
        await storage.acquire_entry("busy", 1000, 60)
    assert len(storage) == 100
    assert (await storage.get_moving_window("busy", 1000, 60))[1] == 1000
    assert (await storage.get_moving_window("crowd-0", 3, 60))[1] == 0


async def test_expired_addresses_make_room_while_new_ones_come() -> None:
    """A minute after a crowd, half as many new addresses have removed it."""
    now = 1_000_000.0
    storage = WindowStorage(now=lambda: now)
    for number in range(1000):
        await storage.acquire_entry(f"old-{number}", 3, 60)
    now += 61
    for number in range(501):
        await storage.acquire_entry(f"new-{number}", 3, 60)
    assert len(storage) == 501


async def test_a_crowd_of_addresses_pushes_no_organization_out() -> None:
    """Each scope has its own bound."""
    limiter = Limiter(ApiSettings(rate_limit_organization=1))
    local(limiter, Scope.IP)._max_identities = 1000
    await limiter.hit(Scope.ORGANIZATION, "acme")
    await crowd(limiter, size=1001)
    assert len(local(limiter, Scope.IP)) == 1000
    verdict = await limiter.hit(Scope.ORGANIZATION, "acme")
    assert verdict is not None
    assert not verdict.allowed
