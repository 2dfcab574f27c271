"""Every verb in both ways, on a real API server: what it prints and its exit code, compared with golden files."""

import json
import signal
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.command_transcripts import Transcript
from support.listening import listening
from support.polling import eventually

from hookwright_cli.commands.secret_commands import signature_checks
from hookwright_dev.cluster.installation import ApiProcess

FAILED = "--state failed"
"""In the hint of ``status`` when the counts of an endpoint have its failed delivery."""
pytestmark = pytest.mark.timeout(300)


def ended(commands: Transcript, number: int) -> list[str]:
    """Return the ids of the deliveries when so many have ended."""

    def look() -> list[str]:
        answer = commands.quiet("deliveries", "-o", "json")
        assert answer.exit_code == 0, answer.stderr
        listed = json.loads(answer.stdout)["data"]
        done = [one["id"] for one in listed if one["status"] in {"delivered", "failed"}]
        return done if len(done) == number == len(listed) else []

    return eventually(look, f"{number} deliveries ended")


def delivery_verbs(commands: Transcript, endpoint: str, receiver: Received, folder: Path) -> None:
    """Run the verbs that both ways have for deliveries."""
    commands.run("test", endpoint, "--type", "bounced", "--payload", '{"recipient": "ada@example.com"}')
    commands.run("send", "delivered", "messageId=m-1", "id=e-1", "size:=3")
    commands.run("send", "delivered", "messageId=m-1", "id=e-1", "size:=3")
    commands.run("send", "-f", "-", stdin='{"type": "bounced", "messageId": "m-2", "id": "e-2"}\n\n')
    ended(commands, 3)
    commands.run("deliveries", endpoint, "--since", "1h")
    commands.run("deliveries", endpoint, "--message", "m-1", "-o", "wide")
    commands.run("deliveries", "--type", "clicked")
    delivery = commands.quiet("deliveries", "--message", "m-1", "-o", "name").stdout.strip()
    commands.run("delivery", delivery)
    commands.run("retry", delivery)
    ended(commands, 3)
    commands.run("replay", endpoint, "--since", "1h", "--state", "all", "--dry-run")
    commands.run("replay", endpoint, "--since", "1h", "--state", "all")
    commands.run("replays", endpoint)
    ended(commands, 3)
    receiver.status = 500
    commands.run("test", endpoint)
    commands.quiet("send", "delivered", "messageId=m-3")
    ended(commands, 5)
    commands.run("deliveries", endpoint, "--state", "failed")
    _, headers, body = receiver.requests[0]
    (folder / "body").write_bytes(body)
    (folder / "headers").write_text(f"X-Service-Signature: {headers['x-service-signature']}")


def secret_verbs(commands: Transcript, endpoint: str, folder: Path) -> None:
    """Run the verbs for signing secrets."""
    commands.run("secret", "show", endpoint)
    signature, body = (folder / "headers").read_text(), str(folder / "body")
    commands.run("secret", "verify", endpoint, "--body", body, "-H", signature)
    commands.run("secret", "verify", endpoint, "--body", body, "-H", "X-Service-Signature: other")
    commands.run("secret", "verify", endpoint, "--body", body, "-H", "Accept: */*")


def test_every_verb_by_v1(
    by_api: Transcript, acme: Organization, api: ApiProcess, receiver: Received, tmp_path: Path
) -> None:
    """A user logs in, makes a key for what only a key may do, and uses each verb; a refusal names the other way."""
    run = by_api.run
    run("endpoints", "list")
    run("login", "--url", api.url, "--email", acme.email, "--name", "dev", stdin="wrong\n")
    run("login", "--url", api.url, "--email", acme.email, "--name", "dev", stdin=f"{PASSWORD}\n")
    run("whoami")
    run("contexts", "list")
    run("explain", "bounced")
    run("endpoints", "create", "--to", f"{receiver.url}/orders", "-e", "delivered,bounced", "--description", "Orders")
    endpoint = by_api.quiet("endpoints", "list", "-o", "name").stdout.strip()
    endpoint_verbs(by_api, endpoint)
    run("endpoints", "create", "--pull", "-e", "delivered")
    pulled = by_api.quiet("endpoints", "list", "-o", "name").stdout.split()
    pull_verbs(by_api, next(one for one in pulled if one != endpoint), receiver)
    run("endpoints", "create", "--pull", "--to", f"{receiver.url}/orders", "-e", "delivered")
    made = run("keys", "create", "CI", "--scope", "send,read,manage,pull", "-o", "json")
    by_api.replacing[json.loads(made.stdout)["id"]] = "KEYID"
    key = by_api.quiet("keys", "create", "tests").stdout.strip()
    run("keys", "create", "bad", "--scope", "all")
    run("users", "list")
    run("store", "backup")
    run("store", "adopt", "--from", "cluster/namespace")
    run("metrics", "lease")
    run("endpoints", "create", "orders", "--to", f"{receiver.url}/orders", "-e", "*")
    by_key = Transcript({**by_api.environment, "HOOKWRIGHT_API_KEY": key}, by_api.replacing, by_api.parts)
    delivery_verbs(by_key, endpoint, receiver, tmp_path)
    run("test", endpoint)
    secret_verbs(by_api, endpoint, tmp_path)
    eventually(lambda: FAILED in by_api.quiet("status").stdout, "the failing endpoint is reported")
    run("status")
    run("endpoints", "rotate", endpoint, "--overlap", "1h")
    run("endpoints", "rotate", endpoint, "--overlap", "1h", "--yes")
    run("users", "password", stdin=f"{PASSWORD}\nfour other random words\n")
    run("endpoints", "delete", endpoint, "--yes")
    by_api.replacing[key.split("_")[1]] = "OTHERKEYID"
    run("keys", "revoke", key.split("_")[1], "--yes")
    run("keys", "list", "-o", "yaml")
    run("logout")
    run("contexts", "list")
    by_api.check("api")


def endpoint_verbs(commands: Transcript, endpoint: str) -> None:
    """Run the verbs for endpoints, except create and delete."""
    commands.run("endpoints", "list")
    commands.run("endpoints", "list", "-o", "wide")
    commands.run("endpoints", "get", endpoint)
    commands.run("endpoints", "get", "nothing")
    commands.run("endpoints", "edit", endpoint, "--timeout", "5s", "--rate-limit", "60", "--event", "*")
    commands.run("endpoints", "edit", endpoint, "--timeout", "5h")
    commands.run("endpoints", "suspend", endpoint)
    commands.run("endpoints", "resume", endpoint)
    commands.run("endpoints", "get", endpoint, "-o", "xml")


def pull_verbs(commands: Transcript, endpoint: str, receiver: Received) -> None:
    """Show an endpoint that consumers pull, let it have a URL and none again, and delete it."""
    commands.run("endpoints", "list")
    commands.run("endpoints", "get", endpoint)
    commands.run("endpoints", "edit", endpoint, "--to", f"{receiver.url}/orders")
    commands.run("endpoints", "edit", endpoint, "--pull", "--lease", "2m")
    commands.run("endpoints", "get", endpoint, "-o", "json")
    commands.run("endpoints", "edit", endpoint, "--timeout", "5s")
    commands.run("endpoints", "edit", endpoint, "--expires-at", "2099-01-01T00:00:00Z")
    commands.run("endpoints", "get", endpoint)
    commands.run("endpoints", "edit", endpoint, "--expires-at", "never")
    commands.run("endpoints", "edit", endpoint, "--expires-at", "tomorrow")
    commands.run("endpoints", "delete", endpoint, "--yes")


def test_every_verb_by_a_kubeconfig(
    by_kubeconfig: Transcript, acme: Organization, receiver: Received, tmp_path: Path
) -> None:
    """The same verbs give the same documents; users, and the names of endpoints, are those of the cluster."""
    run = by_kubeconfig.run
    run("whoami")
    run("status", "-n", acme.name)
    run("metrics", "(")
    run("metrics", "lease")
    run("endpoints", "create", "orders", "--to", f"{receiver.url}/orders", "-e", "delivered,bounced")
    endpoint_verbs(by_kubeconfig, "orders")
    run("endpoints", "create", "inbox", "--pull", "--lease", "1m", "-e", "delivered")
    pull_verbs(by_kubeconfig, "inbox", receiver)
    run("keys", "create", "CI", "--scope", "send,read,manage,pull")
    run("keys", "list")
    delivery_verbs(by_kubeconfig, "orders", receiver, tmp_path)
    secret_verbs(by_kubeconfig, "orders", tmp_path)
    status = ("status", "-n", acme.name)
    eventually(lambda: FAILED in by_kubeconfig.quiet(*status).stdout, "the failing endpoint is reported")
    run(*status)
    user = f"bob@{acme.name}.example"
    run("users", "create", user, "--organization", acme.name, "--role", "viewer", stdin=f"{PASSWORD}\n")
    run("users", "create", user, "--organization", acme.name, "--role", "owner", stdin=f"{PASSWORD}\n")
    run("users", "create", user, "--organization", acme.name, "--hash", stdin=f"{PASSWORD}\n")
    run("users", "password", user, stdin="four other random words\n")
    assert user in by_kubeconfig.quiet("users", "list", "-o", "name").stdout
    run("users", "delete", user, "--yes")
    run("endpoints", "rotate", "orders", "--overlap", "1h", "--yes", "-o", "json")
    key = by_kubeconfig.quiet("keys", "list", "-o", "name").stdout.strip()
    by_kubeconfig.replacing[key] = "KEYID"
    run("keys", "revoke", key, "--yes")
    run("endpoints", "delete", "orders", "--yes")
    run("send", "delivered", "--project", "nothing")
    run("contexts", "set", "prod", "-n", acme.name)
    run("contexts", "use", "test")
    account = ("--service-account", f"{acme.name}/support")
    by_kubeconfig.environment["HOOKWRIGHT_INTAKE_TOKEN"] = None
    run("test", "orders", *account)
    run("support-account", *account, "--yes", "-n", acme.name)
    # The token is now that of the new ServiceAccount, whose rights count after a moment.
    eventually(lambda: by_kubeconfig.quiet("test", "nothing", *account).exit_code == 3, "the rights count")
    run("test", "nothing", *account)
    by_kubeconfig.check("kubeconfig")


def received(receiver: Received, number: int) -> None:
    """Return when so many requests have arrived."""
    eventually(lambda: len(receiver.requests) >= number, f"{number} requests at the receiver")


def test_listen_forwards_signed_events_until_ctrl_c(
    by_api: Transcript, acme: Organization, api: ApiProcess, receiver: Received, tmp_path: Path
) -> None:
    """At a terminal, with a session: r sends the last event again, Ctrl-C deletes the endpoint."""
    acme.session()
    by_api.quiet("login", "--url", api.url, "--email", acme.email, stdin=f"{PASSWORD}\n")
    key = by_api.quiet("keys", "create", "producer", "--scope", "send").stdout.strip()
    producer = Transcript({**by_api.environment, "HOOKWRIGHT_API_KEY": key})
    options = ("--forward", f"{receiver.url}/hooks", "--events", "delivered")
    with listening(by_api, tmp_path, *options, terminal=True) as listen:
        endpoint = listen.endpoint()
        assert endpoint["events"] == ["delivered"]
        secret = by_api.quiet("secret", "show", endpoint["id"]).stdout.strip()
        producer.quiet("send", "delivered", "messageId=m-1", "note=\u00e9")
        received(receiver, 1)
        eventually(lambda: "HTTP 200" in listen.output(), "the event is shown")
        listen.press("r")
        received(receiver, 2)
        eventually(lambda: "sent again" in listen.output(), "the repetition is shown")
        listen.press("\x03")
        assert listen.exit_code() == 0
        assert secret in listen.output()
        assert f"endpoint {endpoint['id']} is deleted" in listen.output()
    (path, headers, body), again = receiver.requests
    assert path == "/hooks"
    assert json.loads(body)["messageId"] == "m-1"
    assert signature_checks(secret, headers, body) == {"X-Service-Signature": True, "webhook-signature": True}
    assert again == (path, headers, body)
    assert by_api.quiet("endpoints", "list", "-o", "name").stdout == ""


@pytest.mark.usefixtures("acme")
def test_listen_refuses_what_the_receiver_refuses(
    by_kubeconfig: Transcript, receiver: Received, tmp_path: Path
) -> None:
    """With pipes, by a kubeconfig: retries follow the schedule, and SIGTERM deletes the endpoint."""
    receiver.status = 500
    with listening(by_kubeconfig, tmp_path, "-f", receiver.url, "-o", "json", terminal=False) as listen:
        endpoint = listen.endpoint()
        by_kubeconfig.quiet("send", "bounced", "messageId=m-1")
        eventually(lambda: listen.output().count("\n") >= 2, "both attempts are shown")
        first, second = (json.loads(line) for line in listen.output().splitlines())
        listen.process.send_signal(signal.SIGTERM)
        assert listen.exit_code() == 0
    assert (first["attempt"], first["result"], first["status"]) == (1, "nacked", "pending")
    assert first["forwarded"]["status"] == 500
    assert (second["attempt"], second["result"], second["status"]) == (2, "nacked", "failed")
    assert receiver.requests[1][2].decode() == first["body"]
    secret = by_kubeconfig.quiet("secret", "show", endpoint["id"])
    assert secret.exit_code == 3
    assert by_kubeconfig.quiet("endpoints", "list", "-o", "name").stdout == ""


@pytest.mark.parametrize("way", ["by_api", "by_kubeconfig"])
def test_the_endpoint_of_a_killed_listen_expires(
    way: str, request: pytest.FixtureRequest, acme: Organization, api: ApiProcess, tmp_path: Path
) -> None:
    """While it runs, the expiry is extended again and again. After SIGKILL, the operator deletes the endpoint."""
    commands: Transcript = request.getfixturevalue(way)
    if way == "by_api":
        acme.session()
        commands.quiet("login", "--url", api.url, "--email", acme.email, stdin=f"{PASSWORD}\n")

    def listed() -> list[dict[str, Any]]:
        return list(json.loads(commands.quiet("endpoints", "list", "-o", "json").stdout)["data"])

    with listening(commands, tmp_path, "--lifetime", "10s", "--timeout", "1s", terminal=False) as listen:
        first = listen.endpoint()["expires_at"]
        twice = datetime.fromisoformat(first) + timedelta(seconds=12)
        eventually(
            lambda: datetime.fromisoformat(listed()[0]["expires_at"]) > twice, "the endpoint outlives its first expiry"
        )
        assert listen.process.poll() is None
        listen.process.kill()
        listen.exit_code()
    assert listed()
    eventually(lambda: not listed(), "the endpoint of the killed command is deleted")
