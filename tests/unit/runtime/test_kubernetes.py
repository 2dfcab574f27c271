"""The client of the API server logs in again, bounds its waits, and reports each failure as an error of one tree."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop
from aiohttp import web
from aiohttp.test_utils import TestServer

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

    def write(url: str, token: str) -> None:
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path.write_text(json.dumps(config))

    return write


@pytest.fixture
async def server(kubeconfig: Callable[[str, str], None]) -> AsyncIterator[ApiServer]:
    """Yield a running server, which the kubeconfig names."""
    made, app = ApiServer(), web.Application()
    app.router.add_route("*", "/{path:.*}", made.serve)
    async with TestServer(app) as running:
        made.url = str(running.make_url("/"))
        kubeconfig(made.url, "first")
        yield made


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
        with pytest.raises(KubeError) as refused:
            await kube.get(PATH)
    assert refused.value.status == 401
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
        with pytest.raises(KubeError, match=f"POST {PATH}: 422 invalid") as refused:
            await kube.post(PATH, OBJECT)
        error = refused.value
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
    released = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        if "watch" in request.query:
            await answer.prepare(request)
            await answer.write(b'{"type":"ADDED"}\n')
        await released.wait()
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
        released.set()


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
