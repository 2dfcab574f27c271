"""Producer in a pod: sends events at a steady rate, and retries refused ones, as producers do.

It prints one JSON object: ``accepted`` (events answered 202), ``again`` (requests that were refused or not answered,
and so repeated), ``lost`` (events that were never accepted, with the last answer) and ``longest`` (the longest time of
an event, in seconds).
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

TOKEN: Final = Path("/var/run/secrets/hookwright.dev/token")
PAUSE: Final = 0.2
ANSWER_SECONDS: Final = 5.0


@dataclass(slots=True)
class Tally:
    """Counts of the events by result."""

    accepted: int = 0
    again: int = 0
    longest: float = 0.0
    lost: dict[str, str] = field(default_factory=dict)


async def deliver(session: aiohttp.ClientSession, url: str, name: str, tally: Tally, patience: float) -> None:
    """Send one event until it is accepted, for at most ``patience`` seconds."""
    began, message = time.monotonic(), ""
    while time.monotonic() - began < patience:
        headers = {"Authorization": f"Bearer {TOKEN.read_text().strip()}"}
        try:
            event = {"id": name, "type": "delivered", "messageId": name, "to": "ada@example.com"}
            async with session.post(url, json=event, headers=headers) as answer:
                message = f"{answer.status} {await answer.text()}"
                if answer.status == 202:
                    tally.accepted += 1
                    tally.longest = max(tally.longest, time.monotonic() - began)
                    return
                if answer.status not in {429, 503}:
                    break
        except (aiohttp.ClientError, TimeoutError) as fault:
            message = repr(fault)
        tally.again += 1
        await asyncio.sleep(PAUSE)
    tally.lost[name] = message


async def send(url: str, prefix: str, *, rate: float, seconds: float, patience: float) -> Tally:
    """Send ``rate`` events a second, named ``<prefix>-<number>``, each at its time and independent of the others."""
    tally, tasks = Tally(), []
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    connector = aiohttp.TCPConnector(limit=100, use_dns_cache=False)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        began = time.monotonic()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(deliver(session, url, f"{prefix}-{number}", tally, patience)))
        await asyncio.gather(*tasks)
    return tally


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--prefix", required=True)
    for option in ("--rate", "--seconds", "--patience"):
        parser.add_argument(option, type=float, required=True)
    chosen = parser.parse_args()
    result = asyncio.run(
        send(chosen.url, chosen.prefix, rate=chosen.rate, seconds=chosen.seconds, patience=chosen.patience)
    )
    json.dump(asdict(result), sys.stdout)
