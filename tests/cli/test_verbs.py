"""Every verb in both ways, on a real API server: its output and exit code, compared with golden files."""

import json
from pathlib import Path

import pytest
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.command_transcripts import Transcript
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess

FAILED = "--state failed"
"""In the hint of ``status`` when the counts of an endpoint have its failed delivery."""
pytestmark = pytest.mark.timeout(300)


def ended(commands: Transcript, number: int) -> list[str]:
    """Return the ids of the deliveries when so many have ended."""

    def look() -> list[str]:
        answer = commands.quiet("deliveries", "-o", "json")
        assert answer.exit_code == 0, answer.stderr
        deliveries = json.loads(answer.stdout)["data"]
        result = [row["id"] for row in deliveries if row["status"] in {"delivered", "failed"}]
        return result if len(result) == number == len(deliveries) else []

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


def event_type_verbs(commands: Transcript, acme: Organization) -> None:
    """List and show event types, also one that the organization declares."""
    spec = {
        "meaning": "A customer paid an invoice.",
        "example": '{"amount": 129.9}',
        "payloadSchema": '{"type": "object"}',
    }
    acme.apply({"kind": "EventType", "metadata": {"name": "invoice.paid"}, "spec": spec})
    eventually(lambda: commands.quiet("event-types", "get", "invoice.paid").exit_code == 0, "the type is known")
    commands.run("event-types", "list")
    commands.run("event-types", "get", "invoice.paid")
    commands.run("event-types", "get", "invoice.payed")
    commands.run("event-types", "get", "bounced", "-o", "json")


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
    event_type_verbs(by_api, acme)
    run("endpoints", "create", "--to", f"{receiver.url}/orders", "-e", "delivered,bounced", "--description", "Orders")
    endpoint = by_api.quiet("endpoints", "list", "-o", "name").stdout.strip()
    endpoint_verbs(by_api, endpoint)
    run("status", "--project", "nothing")
    run("endpoints", "create", "--pull", "-e", "delivered")
    result = by_api.quiet("endpoints", "list", "-o", "name").stdout.split()
    pull_verbs(by_api, next(name for name in result if name != endpoint), receiver)
    run("endpoints", "create", "--pull", "--to", f"{receiver.url}/orders", "-e", "delivered")
    answer = run("keys", "create", "CI", "--scope", "send,read,manage,pull", "-o", "json")
    by_api.replacing[json.loads(answer.stdout)["id"]] = "KEYID"
    key = by_api.quiet("keys", "create", "tests").stdout.strip()
    run("keys", "create", "bad", "--scope", "all")
    run("send", "delivered", "messageId=m-1")
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
    run("secret", "verify", endpoint, "--body", str(tmp_path / "body"), "-H", (tmp_path / "headers").read_text())
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
    commands.run("deliveries", "nothing")
    for list_verb in (("endpoints", "list"), ("keys", "list"), ("deliveries",)):
        commands.run(*list_verb, "--project", "nothing")
    commands.run("endpoints", "edit", endpoint, "--timeout", "5s", "--rate-limit", "60", "--event", "*")
    commands.run("endpoints", "edit", endpoint, "--timeout", "5h")
    commands.run("endpoints", "edit", endpoint, "--secret-header", "X-Key=@-", stdin="k3y\n")
    commands.run("endpoints", "edit", endpoint, "--secret-header", "X-Key=")
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


@pytest.mark.slow
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
    event_type_verbs(by_kubeconfig, acme)
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
    run("users", "create", user, "--organization", acme.name, stdin=f"{PASSWORD}\n")
    run("users", "create", user, "--organization", acme.name, "--role", "owner", stdin=f"{PASSWORD}\n")
    run("users", "create", user, "--organization", acme.name, "--hash", stdin=f"{PASSWORD}\n")
    empty = by_kubeconfig.quiet("users", "create", user, "--organization", acme.name, stdin="\n")
    assert (empty.exit_code, "send it on standard input" in empty.stderr) == (2, True)
    early = ("early@x.example", "--organization", f"{acme.name}-later")
    assert "does not exist" in by_kubeconfig.quiet("users", "create", *early, stdin=f"{PASSWORD}\n").stderr
    by_kubeconfig.quiet("users", "delete", early[0], "--yes")
    run("users", "password", user, stdin="four other random words\n")
    users = json.loads(by_kubeconfig.quiet("users", "list", "-o", "json").stdout)["data"]
    assert [one["role"] for one in users if one["email"] == user] == ["viewer"], "a new password keeps the role"
    run("users", "delete", user, "--yes")
    run("endpoints", "rotate", "orders", "--overlap", "1h", "--yes", "-o", "json")
    key = by_kubeconfig.quiet("keys", "list", "-o", "name").stdout.strip()
    by_kubeconfig.replacing[key] = "KEYID"
    run("keys", "revoke", key, "--yes")
    run("endpoints", "delete", "orders", "--yes")
    run("send", "delivered", "--project", "nothing")
    for verb in (("endpoints", "create", "lost", "--pull", "-e", "*"), ("keys", "create", "lost")):
        run(*verb, "--project", "nothing")
    for place in ("-n", "--kube-context"):
        run("endpoints", "list", place, "nothing")
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
