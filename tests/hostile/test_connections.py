"""Connections before any credential: idle, busy, in bursts and from many addresses, with few file descriptors."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.api_processes import problem_of
from support.attacks import LOOPBACK, Installation, connect, exchange, installation, open_files
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster

DESCRIPTORS = 1520
"""What the operator needs with these settings."""
OPERATOR = {"HOOKWRIGHT_MAX_IN_FLIGHT": "80", "HOOKWRIGHT_INTAKE_CONNECTIONS": "80"}
API = {"HOOKWRIGHT_RATE_LIMIT_IP": "0", "HOOKWRIGHT_API_CONNECTIONS": "184"}
PROCESSES = ("operator", "api")
GET = b"GET /v1/webhooks HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = b"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture(scope="module")
def site(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield an operator and an API with few connections and descriptors."""
    folder = tmp_path_factory.mktemp("connections")
    with installation(control_plane, folder, operator=OPERATOR, api=API, descriptors=DESCRIPTORS) as site:
        yield site


def served(site: Installation, name: str, source: str = LOOPBACK) -> bool:
    """Return whether a new connection is served."""
    return exchange(site.ports[name], GET, source).status_code in (401, 404)


@pytest.mark.parametrize("name", PROCESSES)
def test_idle_connections_of_one_address_keep_nobody_out(site: Installation, name: str) -> None:
    """More idle connections than descriptors: health, other clients and the same address are served all the time."""
    with ExitStack() as stack:
        for number in range(DESCRIPTORS + 176):
            stack.enter_context(connect(site.ports[name]))
            if number % 300 == 299:
                assert site.healthy(name)
                assert served(site, name)
                assert served(site, name, "127.0.0.2")
        assert open_files(site.process(name).running.pid) < DESCRIPTORS - 64
        assert site.healthy(name)


@pytest.mark.parametrize("name", PROCESSES)
def test_idle_connections_of_many_addresses_keep_nobody_out(site: Installation, name: str) -> None:
    """20 addresses with 60 connections each reach the bound of all; a new client still gets a connection."""
    with ExitStack() as stack:
        for number in range(1200):
            stack.enter_context(connect(site.ports[name], f"127.0.1.{number % 20 + 1}"))
        for _ in range(20):
            assert site.healthy(name)
            assert served(site, name, "127.0.0.2")
        assert open_files(site.process(name).running.pid) < DESCRIPTORS - 64


@pytest.mark.parametrize("name", PROCESSES)
def test_a_burst_of_connections_keeps_health_alive(site: Installation, name: str) -> None:
    """Connections that wait while the process is paused are all accepted at once, without using up descriptors."""
    pid, port = site.process(name).running.pid, site.ports[name]
    with ExitStack() as stack:
        for number in range(300):
            stack.enter_context(connect(port, f"127.0.2.{number % 20 + 1}"))
        os.kill(pid, signal.SIGSTOP)
        try:
            for number in range(500):
                waiting = stack.enter_context(socket.socket())
                waiting.bind((f"127.0.3.{number % 20 + 1}", 0))
                waiting.settimeout(0)
                waiting.connect_ex((LOOPBACK, port))
        finally:
            os.kill(pid, signal.SIGCONT)
        for _ in range(20):
            assert site.healthy(name)
        assert served(site, name)


def test_busy_connections_beyond_the_bound_are_refused(site: Installation) -> None:
    """Requests under way are not cut off: further connections get 503 with Retry-After, and health stays."""
    with ExitStack() as stack:
        for _ in range(256):
            busy = stack.enter_context(connect(site.api.port))
            busy.sendall(SLOW)
        eventually(lambda: exchange(site.api.port, b"").status_code == 503, "every place of the address has a request")
        answer = exchange(site.api.port, GET)
        assert "too many connections" in problem_of(answer, 503)["detail"]
        assert int(answer.headers["retry-after"]) > 0
        assert site.healthy("api")
        assert served(site, "api", "127.0.0.2")
    eventually(lambda: served(site, "api"), "served again")


def test_connections_of_an_address_are_bounded_but_not_those_of_a_trusted_proxy(
    control_plane: Cluster, site: Installation
) -> None:
    """A proxy's connections carry many clients. On /v1 a refused connection has the headers of the rate limit."""
    settings = {"HOOKWRIGHT_API_CONNECTIONS_PER_ADDRESS": "2", "HOOKWRIGHT_TRUSTED_PROXIES": "127.0.0.0/30"}
    bounded = ApiProcess(control_plane, site.api.folder / "bounded", site.operator.intake_url, settings)
    with bounded as api, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(connect(api.port)).sendall(SLOW)
        assert exchange(api.port, GET).status_code == 401
        for _ in range(2):
            stack.enter_context(connect(api.port, "127.0.0.9")).sendall(SLOW)
        eventually(lambda: exchange(api.port, b"", "127.0.0.9").status_code == 503, "both places have a request")
        answer = exchange(api.port, GET, "127.0.0.9")
        assert answer.status_code == 503
        assert answer.headers["x-ratelimit-limit"] == "100"
        assert {"x-ratelimit-remaining", "x-ratelimit-reset", "retry-after"} <= set(answer.headers)
