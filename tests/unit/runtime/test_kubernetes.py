"""The client of the API server logs in again, bounds its waits, and reports each failure as an error of one tree."""

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from aiohttp.test_utils import TestServer
from support.kubeconfig import write_kubeconfig
from support.receivers import Behaviour, answers, hangs, read_request, resets, serve

from hookwright_runtime import kubernetes
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient

PATH = "/api/v1/namespaces/acme/configmaps"
OBJECT = {"metadata": {"name": "one"}}


class ApiServer:
    """A server that accepts one token and records the requests; ``answer`` replaces its answer."""

    def __init__(self) -> None:
        self.url = ""
        self.token = "first"
        self.asked: list[tuple[str, dict[str, str], str]] = []
        self.answer: Callable[[web.Request], web.StreamResponse] = lambda _: web.json_response(OBJECT)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.asked.append((request.method, dict(request.query), request.headers["Content-Type"]))
        if request.headers["Authorization"] != f"Bearer {self.token}":
            return web.json_response({"message": "Unauthorized", "reason": "Unauthorized"}, status=401)
        return self.answer(request)


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that writes the credentials for a server."""
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))

    return partial(write_kubeconfig, path)


@pytest.fixture
async def server(kubeconfig: Callable[[str, str], None]) -> AsyncIterator[ApiServer]:
    """Yield a running server, which the kubeconfig names."""
    creation, app = ApiServer(), web.Application()
    app.router.add_route("*", "/{path:.*}", creation.serve)
    async with TestServer(app) as running:
        creation.url = str(running.make_url("/"))
        kubeconfig(creation.url, "first")
        yield creation


@asynccontextmanager
async def connected(**options: float) -> AsyncIterator[KubernetesClient]:
    """Yield a client, and close it."""
    kube = await KubernetesClient.connect("tests", **options)  # type: ignore[arg-type]
    try:
        yield kube
    finally:
        await kube.close()


async def all_events(kube: KubernetesClient) -> list[kubernetes.Object]:
    """Return the events of a watch that ends."""
    async with kube.watch(PATH) as events:
        return [event async for event in events]


@pytest.mark.parametrize(
    ("content", "explanation"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param(b"users: [{name: u, user: {token: secret-token", "malformed", id="no YAML"),
        pytest.param(b"users: \xff", "malformed", id="no text"),
        pytest.param(b"secret-token", "malformed", id="no mapping"),
        pytest.param(b"current-context: absent", "malformed", id="no such context"),
        pytest.param(b"{current-context: c, contexts: [secret-token]}", "malformed", id="no context"),
    ],
)
async def test_credentials_that_cannot_be_read_are_an_outage_without_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, explanation: str
) -> None:
    """The error is one line that explains the cause; neither it nor its traceback has a part of the file."""
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(KubeUnavailable, match="credentials of the cluster cannot be read") as error:
        await KubernetesClient.connect("tests")
    assert explanation in str(error.value)
    assert "\n" not in str(error.value)
    assert "secret-token" not in "".join(traceback.format_exception(error.value))


async def test_credentials_that_cannot_be_read_again_are_an_outage(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the client runs, the intake can answer 503; after the fault, requests succeed again."""
    monkeypatch.setattr(kubernetes, "_RELOGIN_SECONDS", 0.0)
    path, remainder = tmp_path / "kubeconfig", tmp_path / "kept"
    async with connected() as kube:
        path.rename(remainder)
        with pytest.raises(KubeUnavailable, match="cannot be read"):
            await kube.get(PATH)
        remainder.rename(path)
        assert await kube.get(PATH) == OBJECT
    assert len(server.asked) == 1


@pytest.mark.parametrize("module", ["hookwright_operator", "hookwright_api"])
def test_a_process_without_readable_credentials_ends_with_one_line(module: str, tmp_path: Path) -> None:
    """An administrator sees the cause, and no traceback."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(tmp_path / "absent"),
        "HOOKWRIGHT_NAMESPACE": "hookwright-system",
        "HOOKWRIGHT_DATABASE_URL": f"sqlite:///{tmp_path}/hookwright.db",
        "HOOKWRIGHT_OPERATOR_URL": "http://127.0.0.1:1",
    }
    result = subprocess.run(
        [sys.executable, "-m", module], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    lines = (result.stdout + result.stderr).splitlines()
    assert result.returncode == 1, lines
    assert len(lines) == 1, lines
    assert "credentials of the cluster cannot be read" in lines[0]


async def test_every_write_names_the_field_manager(server: ApiServer) -> None:
    """The API server attributes the fields to it."""
    async with connected() as kube:
        await kube.post(PATH, OBJECT)
        await kube.merge(f"{PATH}/one", OBJECT)
        await kube.apply(f"{PATH}/one", OBJECT)
    assert server.asked == [
        ("POST", {"fieldManager": "tests"}, "application/json"),
        ("PATCH", {"fieldManager": "tests"}, "application/merge-patch+json"),
        ("PATCH", {"fieldManager": "tests", "force": "true"}, "application/apply-patch+yaml"),
    ]


async def test_a_refused_token_is_read_again_once(server: ApiServer, kubeconfig: Callable[[str, str], None]) -> None:
    """A projected token was replaced: the request succeeds. Without a valid token it fails, and does not repeat."""
    async with connected() as kube:
        server.token = "second"
        kubeconfig(server.url, "second")
        assert await kube.get(PATH) == OBJECT
        assert len(server.asked) == 2
        server.token = "third"
        with pytest.raises(KubeError) as error:
            await kube.get(PATH)
    assert error.value.status == 401
    assert len(server.asked) == 4


async def test_after_a_refused_watch_the_next_one_uses_the_new_token(
    server: ApiServer, kubeconfig: Callable[[str, str], None]
) -> None:
    """An informer repeats a refused watch, so the second one must have the new credentials."""
    server.answer = lambda _: web.Response(body=b'{"type":"BOOKMARK"}\n')
    async with connected() as kube:
        server.token = "second"
        kubeconfig(server.url, "second")
        with pytest.raises(KubeError):
            await all_events(kube)
        assert await all_events(kube) == [{"type": "BOOKMARK"}]


async def test_a_refusal_has_the_parts_of_the_status(server: ApiServer) -> None:
    """The API tells its callers the causes; 429 and 5xx may succeed later, also if their body is no Status."""
    causes = [{"field": "spec.url", "message": "must be https"}]
    status = {"message": "invalid", "reason": "Invalid", "details": {"causes": causes}}
    server.answer = lambda _: web.json_response(status, status=422)
    async with connected() as kube:
        with pytest.raises(KubeError, match=f"POST {PATH}: 422 invalid") as refusal:
            await kube.post(PATH, OBJECT)
        error = refusal.value
        assert (error.status, error.reason, error.explanation, error.causes) == (422, "Invalid", "invalid", causes)
        assert not isinstance(error, KubeUnavailable)
        for code in (429, 503):
            server.answer = lambda _, code=code: web.Response(text="<html>", status=code)  # type: ignore[misc]
            with pytest.raises(KubeUnavailable) as away:
                await kube.get(PATH)
            assert away.value.status == code


async def test_an_object_that_is_gone_is_deleted_and_another_one_is_not(server: ApiServer) -> None:
    """404 is success. 409 means that another object has the name."""
    async with connected() as kube:
        server.answer = lambda _: web.json_response({}, status=404)
        assert await kube.delete(f"{PATH}/one", uid="u") == {}
        server.answer = lambda _: web.json_response({}, status=409)
        with pytest.raises(KubeError):
            await kube.delete(f"{PATH}/one", uid="u")


async def test_an_answer_that_is_no_json_is_an_outage(server: ApiServer) -> None:
    """A proxy that answers 200 with a page is no API server."""
    server.answer = lambda _: web.Response(text="<html>")
    async with connected() as kube:
        with pytest.raises(KubeUnavailable):
            await kube.get(PATH)
        with pytest.raises(KubeUnavailable):
            await all_events(kube)


async def test_silence_ends_a_request_and_a_watch(
    kubeconfig: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection whose other end is gone without a packet does not stay open."""
    monkeypatch.setattr(kubernetes, "_SILENCE_SECONDS", 0.2)
    release = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if "watch" in request.query:
            await answer.prepare(request)
            await answer.write(b'{"type":"ADDED"}\n')
        await release.wait()
        return answer

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", silent)
    async with TestServer(app) as running:
        kubeconfig(str(running.make_url("/")), "first")
        async with connected(seconds=0.2) as kube:
            with pytest.raises(KubeUnavailable, match="does not answer"):
                await kube.get(PATH)
            with pytest.raises(KubeUnavailable, match="does not answer"):
                await anext(kube.pages(PATH))
            with pytest.raises(KubeUnavailable, match="connection lost"):
                await all_events(kube)
        release.set()


def test_a_connection_that_is_reset_at_once_is_an_outage(kubeconfig: Callable[[str, str], None]) -> None:
    """The API server is killed while clients connect; under uvloop, each request reports the same kind of error."""

    async def ask() -> list[BaseException | kubernetes.Object]:
        def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        kubeconfig(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "first")
        async with server, connected() as kube:
            return await asyncio.gather(*(kube.get(PATH) for _ in range(200)), return_exceptions=True)

    assert {type(error) for error in uvloop.run(ask())} == {KubeUnavailable}


WRITES: dict[str, Callable[[KubernetesClient], Awaitable[object]]] = {
    "post": lambda kube: kube.post(PATH, OBJECT),
    "merge": lambda kube: kube.merge(PATH, OBJECT),
    "delete": lambda kube: kube.delete(PATH, uid="u"),
}


async def outcomes_unknown(**options: float) -> dict[str, bool]:
    """Return whether the outcome of each write is unknown, after a read whose outcome is never unknown."""
    async with connected(**options) as kube:
        with pytest.raises(KubeUnavailable) as read:
            await kube.get(PATH)
        assert not read.value.outcome_unknown
        unknown = {}
        for name, write in WRITES.items():
            with pytest.raises(KubeUnavailable) as error:
                await write(kube)
            unknown[name] = error.value.outcome_unknown
        return unknown


LOST: dict[str, Behaviour] = {
    "no answer": hangs,
    "closed after the request": answers(b""),
    "reset after the request": resets,
    "no JSON": answers(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"),
}


@pytest.mark.parametrize("behaviour", LOST.values(), ids=LOST)
async def test_a_write_without_an_answer_has_an_unknown_outcome(
    behaviour: Behaviour, kubeconfig: Callable[[str, str], None]
) -> None:
    """The API server may have done it before the connection was lost."""
    async with serve(behaviour) as raw_server:
        kubeconfig(raw_server.url.removesuffix("/hooks"), "first")
        assert all((await outcomes_unknown(seconds=0.3)).values())


async def test_a_write_that_was_not_sent_did_nothing(
    kubeconfig: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server is stopped, or it does not answer the first message of TLS. A DELETE may be a repetition."""
    async with serve(hangs) as raw_server:
        kubeconfig(raw_server.url.removesuffix("/hooks"), "first")
    assert await outcomes_unknown() == {"post": False, "merge": False, "delete": True}

    monkeypatch.setattr(kubernetes, "_CONNECT_SECONDS", 0.2)
    async with serve(hangs) as raw_server:
        kubeconfig(raw_server.url.removesuffix("/hooks").replace("http:", "https:"), "first")
        assert await outcomes_unknown() == {"post": False, "merge": False, "delete": True}


async def test_a_delete_that_was_sent_and_cannot_be_repeated_has_an_unknown_outcome(
    kubeconfig: Callable[[str, str], None],
) -> None:
    """A lost DELETE is sent again by aiohttp; the refusal of the second connection proves nothing."""
    end = asyncio.Event()

    async def stop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        once.close()
        writer.close()
        await writer.wait_closed()
        end.set()

    once = await asyncio.start_server(stop, "127.0.0.1", 0)
    kubeconfig(f"http://127.0.0.1:{once.sockets[0].getsockname()[1]}", "first")
    async with connected() as kube:
        with pytest.raises(KubeUnavailable, match="ClientConnectorError") as error:
            await WRITES["delete"](kube)
    await end.wait()
    assert error.value.outcome_unknown


@pytest.mark.parametrize(("status", "unknown"), [(429, False), (500, True), (503, True), (504, True)])
async def test_a_5xx_of_a_write_has_an_unknown_outcome_and_a_429_has_not(
    status: int, *, unknown: bool, server: ApiServer
) -> None:
    """A timeout of etcd is a 5xx, and the write may be stored; a 429 comes before the write."""
    server.answer = lambda _: web.json_response({"message": "no"}, status=status)
    assert set((await outcomes_unknown()).values()) == {unknown}
