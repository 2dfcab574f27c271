"""What `hookwright --help` imports: the time to start follows from that, and a count does not depend on the machine."""

import subprocess
import sys

import pytest

SERVER = (
    "hookwright_api", "hookwright_operator", "hookwright_crds", "hookwright_runtime", "hookwright_dev", "fastapi",
    "starlette", "uvicorn", "sqlalchemy", "kopf", "aiohttp", "structlog", "prometheus_client",
)  # fmt: skip
LATER = ("kubernetes", "httpx", "keyring", "yaml")
"""Packages that a command imports when it needs them."""
MOST = 260
"""Modules after `--help`; 207 when this bound was chosen, of which Python itself imports about 60."""


def imported(*arguments: str) -> list[str]:
    """Return the modules that a new process has imported after a command."""
    program = f"""
import sys
from hookwright_cli.command_line import app
app({list(arguments)!r}, standalone_mode=False)
print("MODULES", *sorted(sys.modules))"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.rpartition("MODULES ")[2].split()


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_imports_few_modules(option: str) -> None:
    """Neither a server package, nor asyncio, nor what typer imports to check arguments."""
    modules = imported(option)
    assert sorted({*SERVER, *LATER, "asyncio", "ssl", "pydantic"} & set(modules)) == []
    assert len(modules) <= MOST


@pytest.mark.parametrize("group", ["endpoints", "listen", "send", "store"])
def test_help_of_a_command_imports_no_server_package_and_no_client(group: str) -> None:
    """The packages of the server are not installed with the command line, and a client is imported at its first use."""
    assert sorted({*SERVER, *LATER} & set(imported(group, "--help"))) == []
