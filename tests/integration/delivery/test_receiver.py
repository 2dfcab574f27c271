"""The receiver that the demo and the tests use to check signatures."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.attempts import BODY, MESSAGE, OLDER, SECRET, endpoint, loopback, send
from support.polling import PATIENCE

from hookwright_dev.receiver import verdict
from hookwright_operator.delivery.http.signatures import signature_headers

GOOD = signature_headers([SECRET], MESSAGE, 1_700_000_000, BODY)


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Start the receiver's program and yield it with the url that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "hookwright_dev.receiver", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "SIGNING_SECRET": SECRET},
    )
    try:
        text = await printed(process)
        assert text.startswith("listening on http://127.0.0.1:")
        yield process, text.removeprefix("listening on ")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()  # also ends the pipe, whose transport a wait alone leaves open


async def printed(process: asyncio.subprocess.Process) -> str:
    """Return the next line that the program prints."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readline()).decode().strip()


@pytest.mark.parametrize("secrets", [[SECRET], [OLDER, SECRET]])
def test_a_good_signature_is_good_for_whoever_knows_its_secret(secrets: list[str]) -> None:
    """One known secret is enough."""
    assert verdict(GOOD, BODY, secrets) == ""


@pytest.mark.parametrize(
    ("headers", "body", "secrets", "wrong"),
    [
        (GOOD, BODY + b" ", [SECRET], "X-Service-Signature"),
        (GOOD, BODY, [OLDER], "X-Service-Signature"),
        (GOOD, BODY, [], "X-Service-Signature"),
        ({}, BODY, [SECRET], "X-Service-Signature"),
        (GOOD | {"X-Service-Signature": ""}, BODY, [SECRET], "X-Service-Signature"),
        (GOOD | {"webhook-id": "msg_other"}, BODY, [SECRET], "webhook-signature"),
        (GOOD | {"webhook-timestamp": "1700000001"}, BODY, [SECRET], "webhook-signature"),
        (GOOD | {"webhook-signature": "v1,AAAA"}, BODY, [SECRET], "webhook-signature"),
    ],
)
def test_whatever_is_changed_is_noticed(headers: dict[str, str], body: bytes, secrets: list[str], wrong: str) -> None:
    """Body, secret, id, time and both headers are checked, and the verdict names the one that does not match."""
    assert verdict(headers, body, secrets) == f"{wrong} does not match"


async def test_the_program_judges_each_delivery_and_fails_the_first_attempts(tmp_path: Path) -> None:
    """The program prints its url and one line for each delivery: id, type, attempt, verdict; it ends on SIGTERM."""
    (tmp_path / "secret").write_text(f"{OLDER}\n")
    arguments = ("--secret-env", "SIGNING_SECRET", "--fail-first", "1", "--status", "202")
    async with running(*arguments) as (process, url), loopback() as sender:
        statuses = [(await send(sender, endpoint(url))).status_code for _ in range(2)]
        lines = [await printed(process), await printed(process)]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert statuses == [500, 202]
    assert [line.partition(" ")[2] for line in lines] == [
        f"{MESSAGE} delivered attempt 1 signatures good, answered 500",
        f"{MESSAGE} delivered attempt 2 signatures good, answered 202",
    ]

    async with running("--secret-file", str(tmp_path / "secret")) as (process, url), loopback() as sender:
        assert (await send(sender, endpoint(url))).delivered
        assert "BAD: X-Service-Signature does not match" in await printed(process)
