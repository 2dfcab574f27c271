"""What `hookwright --help` imports: the time to start follows from that, and a count does not depend on the machine."""

import subprocess
import sys

SERVER = (
    "hookwright_api", "hookwright_operator", "hookwright_crds", "hookwright_runtime", "hookwright_dev", "fastapi",
    "starlette", "uvicorn", "sqlalchemy", "kopf", "aiohttp", "structlog", "prometheus_client",
)  # fmt: skip
LATER = ("kubernetes", "httpx", "keyring", "yaml")
"""Packages that a command imports when it needs them."""
MOST = 260
"""Modules after `--help`; 207 when this bound was chosen, of which Python itself imports about 60."""


def imported(*commands: list[str]) -> list[str]:
    """Return the modules that a new process has imported after commands."""
    program = f"""
import sys
from hookwright_cli.command_line import app
for command in {commands!r}:
    app(command, standalone_mode=False)
print("MODULES", *sorted(sys.modules))"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return run.stdout.rpartition("MODULES ")[2].split()


def test_help_imports_few_modules() -> None:
    """Neither a server package, nor asyncio, nor what typer imports to check arguments; the same of --version."""
    modules = imported(["--version"], ["--help"])
    assert sorted({*SERVER, *LATER, "asyncio", "ssl", "pydantic"} & set(modules)) == []
    assert len(modules) <= MOST


def test_help_of_a_command_imports_no_server_package_and_no_client() -> None:
    """The packages of the server are not installed with the command line, and a client is imported at its first use."""
    modules = imported(*([group, "--help"] for group in ("endpoints", "listen", "send", "store")))
    assert sorted({*SERVER, *LATER} & set(modules)) == []


def test_a_command_by_a_kubeconfig_loads_no_models_of_kubernetes() -> None:
    """The models of all kinds, which the generated methods need, take a second and a half of CPU."""
    ways = "hookwright_cli.ways.kubeconfig_way, hookwright_cli.ways.store_copy, kubernetes.stream.ws_client"
    program = (
        f"import sys, {ways}; print([name for name in sys.modules if name.startswith('kubernetes.client.models.')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
