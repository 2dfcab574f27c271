"""The OpenAPI description as generators of clients and linters read it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from hookwright_api.console import static_files
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.node_packages import HTMX_FILES, LOCK, node
from hookwright_operator.settings import OperatorSettings

DOCUMENT = ROOT / "docs" / "openapi.json"
SENT_HEADERS = {
    "createWebhook 201": {"ETag", "Location"},
    "getWebhook 200": {"ETag"},
    "updateWebhook 200": {"ETag"},
    "createKey 201": {"Location"},
    "createProject 201": {"Location"},
    "beginReplay 202": {"Location"},
}
"""Answers with headers that not all have; tests/integration/api/test_examples.py compares them with the service."""
WITHOUT_EXAMPLE = {"listEventTypes 200"}
"""Spectral reports a fault for `example` in its content."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the exported description."""
    data: dict[str, Any] = json.loads(DOCUMENT.read_text())
    return data


def test_spectral_finds_nothing(node_packages: Path) -> None:
    """Spectral's own rules for OpenAPI report neither an error nor a warning."""
    script = node_packages / "@stoplight" / "spectral-cli" / "dist" / "index.js"
    rules = LOCK.with_name("spectral.yaml")
    result = node(script, "lint", "--fail-severity=hint", f"--ruleset={rules}", str(DOCUMENT), cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_redocly_finds_nothing(node_packages: Path) -> None:
    """Redocly's recommended rules, with each warning as an error, report nothing."""
    script = node_packages / "@redocly" / "cli" / "bin" / "cli.js"
    result = node(script, "lint", f"--config={LOCK.with_name('redocly.yaml')}", str(DOCUMENT), cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_linters_report_a_fault(node_packages: Path, document: dict[str, Any], tmp_path: Path) -> None:
    """Both linters fail for the head of the description without servers, so the two tests above can fail."""
    wrong = tmp_path / "openapi.json"
    wrong.write_text(json.dumps({"openapi": document["openapi"], "info": document["info"], "servers": [], "paths": {}}))
    spectral = node_packages / "@stoplight" / "spectral-cli" / "dist" / "index.js"
    rules = f"--ruleset={LOCK.with_name('spectral.yaml')}"
    assert "oas3-api-servers" in node(spectral, "lint", "--fail-severity=hint", rules, str(wrong), cwd=ROOT).stdout
    redocly = node_packages / "@redocly" / "cli" / "bin" / "cli.js"
    config = f"--config={LOCK.with_name('redocly.yaml')}"
    result = node(redocly, "lint", config, str(wrong), cwd=ROOT)
    assert "no-empty-servers" in result.stdout + result.stderr


def test_the_description_names_servers_and_the_requests_that_receivers_get(document: dict[str, Any]) -> None:
    """A generator of clients finds a base URL, and a generator of receivers finds the request and its headers."""
    assert [server["url"] for server in document["servers"]] == ["/", "https://{host}"]
    operation = document["webhooks"]["event"]["post"]
    headers = {parameter["name"] for parameter in operation["parameters"]}
    assert headers == {"webhook-id", "webhook-timestamp", "webhook-signature", "X-Service-Signature"}
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Event"}


def test_the_body_of_events_is_one_named_schema(document: dict[str, Any]) -> None:
    """The body is a reference, because generators make an unusable type for an unnamed union."""
    schema = document["paths"]["/v1/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/EventsRequest"}
    assert document["components"]["schemas"]["EventsRequest"]["oneOf"] == [
        {"$ref": "#/components/schemas/Event"},
        {"$ref": "#/components/schemas/EventList"},
    ]


def test_answers_may_get_more_fields(document: dict[str, Any]) -> None:
    """No schema of an answer forbids further fields, because strict clients would fail after an upgrade."""
    schemas = document["components"]["schemas"]
    answers = {
        name
        for operations in document["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
        for name in _referenced(response, schemas)
    }
    assert {"WebhookDetailAnswer", "Problem", "CountsAnswer"} <= answers
    assert [name for name in sorted(answers) if schemas[name].get("additionalProperties") is False] == []


def test_each_header_of_single_answers_is_described_where_it_is_sent(document: dict[str, Any]) -> None:
    """ETag and Location are in the description of the answers that have them, and of no others."""
    description = {name: {"ETag", "Location"} & answer["headers"].keys() for name, answer in _successes(document)}
    assert {name: headers for name, headers in description.items() if headers} == SENT_HEADERS
    for header in ("ETag", "Location"):
        assert document["components"]["headers"][header]["schema"] == {"type": "string"}


def test_each_success_has_an_example_of_its_schema(document: dict[str, Any]) -> None:
    """Only content that the linters misread has no example; each example is valid, and so is that of a problem."""
    bodies = {
        name: answer["content"]["application/json"] for name, answer in _successes(document) if "content" in answer
    }
    assert {name for name, body in bodies.items() if "example" not in body} == WITHOUT_EXAMPLE
    problem = {"$ref": "#/components/schemas/Problem"}
    bodies["Problem"] = {"schema": problem, "example": document["components"]["schemas"]["Problem"]["example"]}
    for name, body in bodies.items():
        if name not in WITHOUT_EXAMPLE:
            faults = _validator(document, body["schema"]).iter_errors(body["example"])
            assert [fault.message for fault in faults] == [], name


def test_an_example_of_another_form_is_a_fault(document: dict[str, Any]) -> None:
    """The test above can fail: an example without a field is not valid."""
    body = dict(_successes(document))["createWebhook 201"]["content"]["application/json"]
    wrong = {name: value for name, value in body["example"].items() if name != "secret"}
    assert not _validator(document, body["schema"]).is_valid(wrong)


def _successes(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each answer of success with its operation and status, such as ``login 200``."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status.startswith("2"):
                    yield f"{operation['operationId']} {status}", answer


def _validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({**schema, "components": document["components"]})


def test_the_time_between_updates_of_counts_is_the_settings_default(document: dict[str, Any]) -> None:
    """The description of the counts has the default of HOOKWRIGHT_STATUS_INTERVAL."""
    seconds = OperatorSettings.model_fields["status_interval"].default
    assert f"{seconds:g} seconds" in document["components"]["schemas"]["CountsAnswer"]["description"]


def test_the_file_of_htmx_is_that_of_the_pinned_package(node_packages: Path) -> None:
    """The console serves it unchanged, and its licence is beside it."""
    for name, place in HTMX_FILES.items():
        assert (static_files.FOLDER / name).read_bytes() == (node_packages / "htmx.org" / place).read_bytes(), name


def _referenced(part: object, schemas: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the schemas that a part of the description refers to, directly or through others."""
    match part:
        case {"$ref": str(target)}:
            name = target.rpartition("/")[2]
            if name in schemas:
                yield name
                yield from _referenced(schemas[name], schemas)
        case dict():
            for value in part.values():
                yield from _referenced(value, schemas)
        case list():
            for value in part:
                yield from _referenced(value, schemas)
