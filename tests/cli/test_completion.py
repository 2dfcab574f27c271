"""Shell completion as the shells ask for it: live names of a real API server, in both ways."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.api_processes import PASSWORD, Organization
from support.command_transcripts import Transcript
from support.polling import eventually
from typer.testing import CliRunner

from hookwright_cli.command_line import app
from hookwright_dev.cluster.installation import ApiProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PROGRAM = Path(sys.executable).with_name("hookwright")


def request(words: tuple[str, ...], by: str) -> dict[str, str]:
    """Return the variables by which a shell asks for suggestions for the last word."""
    line = " ".join(("hookwright", *words))
    asked = {"_HOOKWRIGHT_COMPLETE": f"complete_{by}", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return asked | {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


def completed(commands: Transcript, *words: str, by: str = "bash") -> list[str]:
    """Return the suggestions for the last word; the program must print nothing else."""
    run = CliRunner(env=commands.environment | request(words, by)).invoke(app, (), prog_name="hookwright")
    assert (run.exit_code, run.stderr) == (0, "")
    return run.stdout.split()


def pull_endpoint(acme: Organization, *names: str) -> None:
    """Declare endpoints."""
    spec = {"projectRef": {"name": "billing"}, "pull": {}, "events": ["delivered"]}
    for name in names:
        acme.apply({"kind": "WebhookEndpoint", "metadata": {"name": name}, "spec": spec})


def test_names_of_the_cluster_are_completed(by_kubeconfig: Transcript, acme: Organization) -> None:
    """Endpoints, deliveries, keys and event types that begin with the word; -n chooses the namespace."""
    pull_endpoint(acme, "orders", "orders-archive", "inbox")
    acme.service_key()
    assert sorted(completed(by_kubeconfig, "endpoints", "get", "ord")) == ["orders", "orders-archive"]
    assert completed(by_kubeconfig, "endpoints", "get", "ord", by="fish") == ["orders", "orders-archive"]
    assert '"inbox"' in " ".join(completed(by_kubeconfig, "endpoints", "get", "i", by="zsh"))
    assert completed(by_kubeconfig, "-n", "no-such-namespace", "endpoints", "get", "ord") == []
    assert completed(by_kubeconfig, "endpoints", "get", "-n", "no-such-namespace", "ord") == []
    assert (
        completed(by_kubeconfig, "keys", "revoke", "")
        == by_kubeconfig.quiet("keys", "list", "-o", "name").stdout.split()
    )
    assert completed(by_kubeconfig, "event-types", "get", "soft") == ["soft_bounce"]
    assert completed(by_kubeconfig, "deliveries", "--project", "b") == ["billing"]
    assert completed(by_kubeconfig, "deliveries", "-n", acme.name[:-1]) == [acme.name]
    assert completed(by_kubeconfig, "--kube-context", "hook") == ["hookwright"]
    eventually(lambda: by_kubeconfig.quiet("send", "delivered", "messageId=m").exit_code == 0, "the event is accepted")
    deliveries = by_kubeconfig.quiet("deliveries", "-o", "name").stdout.split()
    assert len(deliveries) == 3
    assert sorted(completed(by_kubeconfig, "delivery", "dlv_")) == sorted(deliveries)


def test_names_of_v1_are_completed_and_contexts(by_api: Transcript, acme: Organization, api: ApiProcess) -> None:
    """After a login, the current context is used. Without one there are no suggestions and no error."""
    assert completed(by_api, "endpoints", "get", "") == []
    acme.session()
    by_api.quiet("login", "--url", api.url, "--email", acme.email, "--name", "staging", stdin=f"{PASSWORD}\n")
    pull_endpoint(acme, "orders")
    eventually(lambda: completed(by_api, "endpoints", "suspend", "o") == ["orders"], "the endpoint is suggested")
    assert completed(by_api, "contexts", "use", "s") == ["staging"]


def test_the_program_itself_answers_a_shell(tmp_path: Path) -> None:
    """The installed command reads the variables of the shell, and prints only suggestions."""
    environment = {**os.environ, "HOME": str(tmp_path), **request(("deliveries", "-o", "j"), "bash")}
    run = subprocess.run([str(PROGRAM)], env=environment, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("json\n", "")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("deliveries", "--state", ""), ["pending", "delivered", "failed", "discarded"]),
        (("keys", "create", "CI", "--scope", "send,r"), ["send,read"]),
        (("endpoints", "edit", "orders", "--expires-at", ""), ["never"]),
        (("listen", "--events", "delivered,wa_"), ["delivered,wa_*"]),
    ],
)
def test_values_are_completed(words: tuple[str, ...], values: list[str], tmp_path: Path) -> None:
    """Those of a choice, and the last one of several; they need no service."""
    suggestions = completed(Transcript({"HOME": str(tmp_path)}), *words)
    assert suggestions[: len(values)] == values


def test_a_cluster_that_is_away_gives_no_suggestion(by_kubeconfig: Transcript, tmp_path: Path) -> None:
    """The shell would show an error inside the command line."""
    away = tmp_path / "away.yaml"
    away.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}"
    )
    by_kubeconfig.environment["KUBECONFIG"] = str(away)
    assert completed(by_kubeconfig, "endpoints", "get", "") == []
    (tmp_path / "broken.yaml").write_text("{")
    by_kubeconfig.environment["KUBECONFIG"] = str(tmp_path / "broken.yaml")
    assert completed(by_kubeconfig, "endpoints", "get", "") == []
