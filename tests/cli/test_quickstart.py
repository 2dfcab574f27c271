"""``hookwright quickstart`` in both ways: from nothing to a delivery, again with what exists, and back to nothing."""

import json
import re
from pathlib import Path

import pytest
from support.api_processes import PASSWORD, Organization
from support.command_transcripts import Transcript
from support.polling import eventually
from support.running_commands import running

from hookwright_dev.cluster.installation import ApiProcess

pytestmark = pytest.mark.timeout(300)


def ids(commands: Transcript, kind: str) -> list[str]:
    """Return the ids of the endpoints or keys of the project that the command makes."""
    return commands.quiet(kind, "list", "-p", "quickstart", "-o", "name").stdout.split()


def test_quickstart_by_v1(by_api: Transcript, acme: Organization, api: ApiProcess, tmp_path: Path) -> None:
    """A terminal shows the key once, pipes never do; the second run uses it. `--remove` leaves other projects."""
    acme.session()
    by_api.quiet("login", "--url", api.url, "--email", acme.email, stdin=f"{PASSWORD}\n")
    refusal = by_api.quiet("quickstart")
    assert (refusal.exit_code, "hookwright-project-manager" in refusal.stderr) == (4, True)
    acme.allow_projects()
    eventually(lambda: by_api.quiet("quickstart", "-o", "json").exit_code == 0, "the organization allows projects")
    with running(by_api, tmp_path, "quickstart", terminal=True) as first:
        assert first.exit_code() == 0, first.output()
    (key,) = re.findall(r"hw_\w+", first.output())
    assert re.search(r"delivered  msg_\w+", first.output())
    assert len(ids(by_api, "keys")) == 2

    by_key = Transcript({**by_api.environment, "HOOKWRIGHT_API_KEY": key})
    second = by_key.quiet("quickstart", "-o", "json")
    assert second.exit_code == 0, second.stderr
    assert json.loads(second.stdout)["result"] == "acked"
    assert "hw_" not in second.stdout + second.stderr
    assert len(ids(by_api, "endpoints")) == 1

    assert by_api.quiet("quickstart", "--remove").exit_code == 2
    removal = by_api.quiet("quickstart", "--remove", "--yes")
    assert "project quickstart deleted" in removal.stderr, removal.stderr
    assert by_api.quiet("quickstart", "--remove", "--yes").exit_code == 3
    assert json.loads(by_api.quiet("whoami", "-o", "json").stdout)["projects"] == ["allowed", "billing"]


@pytest.mark.usefixtures("acme")
def test_quickstart_by_a_kubeconfig(by_kubeconfig: Transcript) -> None:
    """The second run makes nothing. In a project of the user, `--remove` deletes only what the command made."""
    for word in ("made", "exists"):
        result = by_kubeconfig.quiet("quickstart")
        assert result.exit_code == 0, result.stderr
        assert re.findall(rf"^(\w+) +\S+ {word}", result.stderr, re.MULTILINE) == ["project", "key", "endpoint"]
        assert re.search(r"delivered  msg_\w+\n", result.stdout)
        assert "hw_" not in result.stdout + result.stderr
    assert (len(ids(by_kubeconfig, "endpoints")), len(ids(by_kubeconfig, "keys"))) == (1, 1)
    assert "project quickstart deleted" in by_kubeconfig.quiet("quickstart", "--remove", "--yes").stderr
    assert by_kubeconfig.quiet("quickstart", "-p", "billing").exit_code == 0
    assert "project billing stays" in by_kubeconfig.quiet("quickstart", "-p", "billing", "--remove", "--yes").stderr
