"""Clients that four generators make from the description run the whole story against the running API.

The story: log in, make a key and a webhook, change it, send an event, find its delivery by the message id, read it,
send it again, rotate the secret, replay the delivery, delete the webhook. The sources are in
tests/support/generated_clients.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received

from hookwright_dev.client_generators import acquire_maven, acquire_python_generator
from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.node_packages import acquire_node_packages, node
from hookwright_dev.tools import OAPI_CODEGEN, acquire_tool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
PROGRAMS: Final = Path(__file__).resolve().parents[2] / "support" / "generated_clients"
DESCRIPTION: Final = ROOT / "docs" / "openapi.json"
STORY: Final = ["accepted 1", "status 200", "rotated true", "replayed 1", "deleted"]
_SECONDS: Final = 500.0

Run = Callable[[list[str]], str]
"""Runs a client with the arguments of the story, and returns its output."""


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of a client's sources, in which its generator may write."""
    copy = tmp_path / "client"
    shutil.copytree(PROGRAMS / request.param, copy)
    yield copy
    shutil.rmtree(copy)


@pytest.mark.parametrize("folder", ["go"], indirect=True)
def test_a_client_of_oapi_codegen(acme: Organization, api: ApiProcess, receiver: Received, folder: Path) -> None:
    """The Go code compiles, and its types have the fields of the answers."""
    (folder / "api").mkdir()
    generating = ["-generate", "types,client", "-package", "api", "-o", "api/api.go"]
    _run([str(acquire_tool(OAPI_CODEGEN)), *generating, str(DESCRIPTION)], folder)
    _run(["go", "build", "-o", "client", "."], folder)
    _tell(acme, api, receiver, lambda story: _run([str(folder / "client"), *story], folder))


@pytest.mark.parametrize("folder", ["typescript"], indirect=True)
def test_a_client_of_openapi_typescript(acme: Organization, api: ApiProcess, receiver: Received, folder: Path) -> None:
    """The compiler of TypeScript finds no fault in its strict mode, and openapi-fetch sends the requests."""
    packages = acquire_node_packages()
    (folder / "node_modules").symlink_to(packages)
    # Otherwise every field of a request that has a default would be required.
    options = ["--default-non-nullable", "false", "-o", "schema.d.ts"]
    _ended(node(packages / "openapi-typescript" / "bin" / "cli.js", str(DESCRIPTION), *options, cwd=folder))
    _ended(node(packages / "typescript" / "bin" / "tsc", "--project", "tsconfig.json", cwd=folder))
    _tell(acme, api, receiver, lambda story: _ended(node(folder / "story.ts", *story, cwd=folder)))


@pytest.mark.parametrize("folder", ["python"], indirect=True)
def test_a_client_of_openapi_python_client(
    acme: Organization, api: ApiProcess, receiver: Received, folder: Path
) -> None:
    """The generator skips no route, and each answer becomes an object of its class."""
    programs = acquire_python_generator()
    generating = ["generate", "--path", str(DESCRIPTION), "--meta", "none", "--output-path", "hookwright_client"]
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    output = _run([str(programs / "openapi-python-client"), *generating], folder, PATH=path)
    assert "Warning" not in output, output
    _tell(acme, api, receiver, lambda story: _run([str(programs / "python"), "story.py", *story], folder))


@pytest.mark.parametrize("folder", ["java"], indirect=True)
def test_a_client_of_openapi_generator(acme: Organization, api: ApiProcess, receiver: Received, folder: Path) -> None:
    """The Java code compiles, and has each route in the class of its tag."""
    maven = [str(acquire_maven()), "--quiet", "--batch-mode", f"-Ddescription={DESCRIPTION}"]

    def run(story: list[str]) -> str:
        # The best code of the compiler is too late for a run of seconds.
        short = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        arguments = f"-Dexec.args={' '.join(map(_quoted, story))}"
        output = _run([*maven, "compile", "exec:java", arguments], folder, MAVEN_OPTS=short)
        return "".join(line for line in output.splitlines(keepends=True) if line.strip() in STORY)

    _tell(acme, api, receiver, run)


def _quoted(argument: str) -> str:
    return f"'{argument}'"


def _tell(acme: Organization, api: ApiProcess, receiver: Received, run: Run) -> None:
    """Run a client; assert that its story ended well, and that the receiver got one event three times."""
    acme.session()
    assert run([api.url, acme.email, PASSWORD, f"{receiver.url}/hooks"]).splitlines() == STORY
    assert len(receiver.requests) == 3
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1


def _run(command: Sequence[str], folder: Path, **variables: str) -> str:
    environ = {**os.environ, "GOWORK": "off", "GOFLAGS": "", **variables}
    return _ended(
        subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False)
    )


def _ended(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout
