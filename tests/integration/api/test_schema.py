"""The running service against its own OpenAPI description, with generated requests."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import Received
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess

pytestmark = pytest.mark.slow
# Every check except positive_data_acceptance: a schema cannot express every rule, such as that a webhook has either a
# url or pull. So a request can match its schema and get a 422.
CHECKS: Final = ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
SINGLE: Final = ["--phases", "examples,coverage,fuzzing", "--max-examples", "10"]
SEQUENCES: Final = ["--phases", "stateful", "--max-examples", "60"]
LEFT_OUT: Final = {
    "anonymous": [],
    "key": [],
    # It ends the session of the run, and every later request would be a 401. The other two cases send it.
    "session": ["--exclude-operation-id", "logout"],
}
FEWEST_LINKS: Final = 5

Parameters = Mapping[str, str]


@pytest.mark.parametrize("credential", ["anonymous", "key", "session"])
def test_no_generated_request_gets_a_5xx_or_anything_undocumented(  # noqa: PLR0917 - a fixture each
    acme: Organization, client: httpx.Client, api: ApiProcess, receiver: Received, tmp_path: Path, credential: str
) -> None:
    """Schemathesis checks the whole schema with each kind of credential, on existing objects."""
    headers = {"anonymous": {}, "key": acme.service_key(), "session": acme.session()}[credential]
    common = {"path.project": "billing"} | ({"query.project": "billing"} if credential == "session" else {})
    description, document = tmp_path / "openapi.json", _described(client, credential)
    description.write_text(json.dumps(document))
    # Without a credential of its own, the run generates some. Otherwise each request would have two, which is a 400.
    is_generated = credential == "anonymous"
    argv = [str(description), "--url", api.url, *CHECKS, *LEFT_OUT[credential]]
    argv += [argument for name, value in headers.items() for argument in ("-H", f"{name}: {value}")]

    shared_name, of_operations = _objects(acme, client, receiver)
    config = _config({**common, **shared_name}, of_operations, generated=is_generated)
    _run(tmp_path, config + _without_coverage(document, credential), [*argv, *SINGLE])
    if credential != "anonymous":
        # A fixed parameter would replace the values of links, so this run has no ids.
        config = _config(common, {"takeMessages": {"query.wait": "0s"}}, generated=is_generated)
        output = _run(tmp_path, config, [*argv, *SEQUENCES])
        links = re.search(r"API Links: +(\d+) covered", output)
        assert links is not None, output
        assert int(links[1]) >= FEWEST_LINKS, output
    assert httpx.get(f"{api.health_url}/readyz", timeout=30.0).status_code == 200


def _described(client: httpx.Client, credential: str) -> dict[str, Any]:
    """Return the description for a credential. A key with ?project= is a 422, so a key has no such parameter."""
    document: dict[str, Any] = client.get("/openapi.json").json()
    if credential == "key":
        for operations in document["paths"].values():
            for operation in operations.values():
                given = operation.get("parameters", [])
                operation["parameters"] = [
                    parameter for parameter in given if (parameter["in"], parameter["name"]) != ("query", "project")
                ]
    return document


def _objects(acme: Organization, client: httpx.Client, receiver: Received) -> tuple[Parameters, dict[str, Parameters]]:
    """Create objects; return the parameters of all operations, and those of single ones.

    An operation that deletes or changes an object gets an object that no other operation uses.
    """
    key = acme.service_key()
    shared_name, changed_name, deleted_name = (
        acme.webhook(key, f"{receiver.url}/{number}")["id"] for number in range(3)
    )
    inbox = {"path.id": acme.webhook(key, None, pull={})["id"]}
    client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key)
    log = f"/v1/webhooks/{shared_name}/deliveries?status=delivered"
    (delivery,) = eventually(lambda: client.get(log, headers=key).json()["data"], "a delivered delivery")
    body = {"since": "2026-01-01T00:00:00Z", "state": "all"}
    replay = client.post(f"/v1/webhooks/{shared_name}/replays", json=body, headers=key).json()["id"]
    return {"path.id": shared_name}, {
        "getDelivery": {"path.id": delivery["id"]},
        "retryDelivery": {"path.id": delivery["id"]},
        "getEvent": {"path.id": delivery["event_id"]},
        "getReplay": {"path.replay": replay},
        "cancelReplay": {"path.replay": replay},
        "updateWebhook": {"path.id": changed_name},
        "deleteWebhook": {"path.id": deleted_name},
        "deleteKey": {"path.id": acme.key()["id"]},
        # A request that waits for messages takes up to 30 s.
        "takeMessages": {**inbox, "query.wait": "0s"},
        "ackMessages": inbox,
        "nackMessages": inbox,
    }


def _config(of_all: Parameters, of_operations: Mapping[str, Parameters], *, generated: bool) -> str:
    """Return a configuration with fixed parameters; `generated` says whether requests get generated credentials."""
    lines = ["[generation]", f"with-security-parameters = {str(generated).lower()}", "[parameters]", *_table(of_all)]
    for operation, parameters in of_operations.items():
        lines += ["[[operations]]", f'include-operation-id = "{operation}"']
        lines += ["[operations.parameters]", *_table(parameters)]
    return "\n".join(lines)


def _without_coverage(document: Mapping[str, Any], credential: str) -> str:
    """Return a configuration without the phase `coverage` for the operations that another credential covers.

    The phase sends the same requests with each credential, and takes most of the time. A key covers every operation
    that it may call, a session the others, and a run without a credential the login.
    """
    names = []
    for operations in document["paths"].values():
        for operation in operations.values():
            schemes = {scheme for requirement in operation.get("security", []) for scheme in requirement}
            covering = "key" if "ServiceKey" in schemes else "session" if schemes else "anonymous"
            if covering != credential:
                names.append(operation["operationId"])
    lines = ["", "[[operations]]", f"include-operation-id = {names}", "[operations.phases.coverage]", "enabled = false"]
    return "\n".join(lines)


def _table(parameters: Parameters) -> list[str]:
    return [f'"{name}" = "{value}"' for name, value in parameters.items()]


def _run(folder: Path, config: str, argv: list[str]) -> str:
    """Run schemathesis and return its output."""
    (folder / "schemathesis.toml").write_text(config)
    program = str(Path(sys.executable).parent / "schemathesis")
    command = [program, "--config-file", "schemathesis.toml", "run", *argv, "--seed", "1", "--no-color"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=560, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    return ran.stdout
