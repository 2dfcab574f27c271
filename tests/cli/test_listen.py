"""``hookwright listen`` in both ways: it forwards signed events, and its endpoint does not outlive it."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from anyio.from_thread import start_blocking_portal
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.command_transcripts import Transcript
from support.polling import eventually
from support.running_commands import running
from support.tcp_proxy import proxied

from hookwright_cli.commands.credential_commands import signature_checks
from hookwright_crds.base import format_timestamp
from hookwright_dev.cluster.installation import ApiProcess

pytestmark = pytest.mark.timeout(300)
UP, LEFT = "\x1b[A", "\x1b[D"
END_OF_LIST = "\x1b[?1049l"


class Detour(NamedTuple):
    """A way to the API that can be closed and opened."""

    url: str
    close: Callable[[], None]
    open: Callable[[], None]


@pytest.fixture
def detour(api: ApiProcess) -> Iterator[Detour]:
    """Yield a way to the API through a proxy."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(proxied(api.url)) as (proxy, url):
        yield Detour(url, lambda: portal.call(proxy.close), lambda: setattr(proxy, "closed", False))


def received(receiver: Received, number: int) -> None:
    """Return when so many requests have arrived."""
    eventually(lambda: len(receiver.requests) >= number, f"{number} requests at the receiver")


def test_listen_forwards_signed_events_until_ctrl_c(
    by_api: Transcript, acme: Organization, detour: Detour, receiver: Received, tmp_path: Path
) -> None:
    """At a terminal, with a session: a list to walk in, which says if no events arrive. Ctrl-C deletes the endpoint."""
    acme.session()
    by_api.quiet("login", "--url", detour.url, "--email", acme.email, stdin=f"{PASSWORD}\n")
    key = by_api.quiet("keys", "create", "producer", "--scope", "send").stdout.strip()
    producer = Transcript({**by_api.environment, "HOOKWRIGHT_API_KEY": key})
    options = ("--forward", f"{receiver.url}/hooks", "--events", "delivered")
    with running(by_api, tmp_path, "listen", *options, terminal=True) as listen:
        endpoint = listen.endpoint()
        assert endpoint["events"] == ["delivered"]
        secret = by_api.quiet("secret", "show", endpoint["id"]).stdout.strip()
        for number in (1, 2):
            producer.quiet("send", "delivered", f"messageId=m-{number}", "note=\u00e9")
            received(receiver, number)
            eventually(lambda: listen.screen().count("HTTP 200") == number, "the event is listed")  # noqa: B023
        listen.press(f"{UP}\n")
        eventually(lambda: '"m-1"' in listen.screen() and "webhook-signature: " in listen.screen(), "it is shown")
        listen.press("r")
        received(receiver, 3)
        listen.press(f"{LEFT}/M-1")
        eventually(lambda: listen.screen().count("HTTP 200") == 2, "the filter hides the other event")
        assert "sent again" in listen.screen()
        listen.press("\n\x1b")
        detour.close()
        eventually(lambda: "no events arrive: " in listen.screen(), "the lost connection is shown")
        detour.open()
        eventually(lambda: "events arrive again" in listen.screen(), "the new connection is shown")
        listen.press("\x03")
        assert listen.exit_code() == 0
        assert secret in listen.output()
        lines = listen.output().rpartition(END_OF_LIST)[2].splitlines()
        assert ["sent again" in line for line in lines[:3]] == [False, False, True]
        assert lines[3] == f"endpoint {endpoint['id']} is deleted"
    (path, headers, body), _, again = receiver.requests
    assert path == "/hooks"
    assert json.loads(body)["messageId"] == "m-1"
    assert signature_checks(secret, headers, body) == {"X-Service-Signature": True, "webhook-signature": True}
    assert again == (path, headers, body)
    assert by_api.quiet("endpoints", "list", "-o", "name").stdout == ""


@pytest.mark.usefixtures("acme")
@pytest.mark.slow
def test_listen_refuses_what_the_receiver_refuses(
    by_kubeconfig: Transcript, receiver: Received, tmp_path: Path
) -> None:
    """With pipes, by a kubeconfig: retries follow the schedule, and SIGTERM deletes the endpoint."""
    receiver.status = 500
    with running(by_kubeconfig, tmp_path, "listen", "-f", receiver.url, "-o", "json", terminal=False) as listen:
        endpoint = listen.endpoint()
        by_kubeconfig.quiet("send", "bounced", "messageId=m-1")
        eventually(lambda: listen.output().count("\n") >= 2, "both attempts are shown")
        first, second = listen.documents()
        listen.process.send_signal(signal.SIGTERM)
        assert listen.exit_code() == 0
    assert (first["attempt"], first["result"], first["status"]) == (1, "nacked", "pending")
    assert first["forwarded"]["status"] == 500
    assert (second["attempt"], second["result"], second["status"]) == (2, "nacked", "failed")
    assert receiver.requests[1][2].decode() == first["body"]
    secret = by_kubeconfig.quiet("secret", "show", endpoint["id"])
    assert secret.exit_code == 3
    assert by_kubeconfig.quiet("endpoints", "list", "-o", "name").stdout == ""


@pytest.mark.slow
def test_the_endpoint_of_a_killed_listen_expires(
    by_api: Transcript, by_kubeconfig: Transcript, acme: Organization, api: ApiProcess, tmp_path: Path
) -> None:
    """While it runs, the expiry is extended again and again. After SIGKILL, the operator deletes the endpoint.

    One runs by /v1 and one by a kubeconfig, which has a home without a context. The test does not wait for the expiry
    of 15 s, but makes it earlier.
    """
    acme.session()
    by_api.quiet("login", "--url", api.url, "--email", acme.email, stdin=f"{PASSWORD}\n")
    by_kubeconfig.environment["HOME"] = str(tmp_path / "kubeconfig")

    def expiries() -> dict[str, datetime]:
        rows = json.loads(by_kubeconfig.quiet("endpoints", "list", "-o", "json").stdout)["data"]
        return {row["id"]: datetime.fromisoformat(row["expires_at"]) for row in rows}

    with ExitStack() as stack:
        listens = []
        for name, commands in {"v1": by_api, "kubeconfig": by_kubeconfig}.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            options = ("--lifetime", "15s", "--timeout", "1s")
            listens.append(stack.enter_context(running(commands, folder, "listen", *options, terminal=False)))
            eventually(lambda: len(expiries()) == len(listens), f"an endpoint by {name}")
        first = expiries()
        eventually(
            lambda: all(expiries()[name] > expiry + timedelta(seconds=6) for name, expiry in first.items()),
            "both endpoints are extended twice",
        )
        for listen in listens:
            assert listen.process.poll() is None
            listen.process.kill()
            listen.exit_code()
    now = datetime.now(UTC)
    assert expiries().keys() == first.keys()
    assert all(expiry <= now + timedelta(seconds=16) for expiry in expiries().values())
    soon = {"spec": {"expiresAt": format_timestamp(now + timedelta(seconds=2))}}
    for name in first:
        acme.cluster.objects.patch("WebhookEndpoint", name, acme.name, soon)
    eventually(lambda: not expiries(), "the endpoints of the killed commands are deleted")
