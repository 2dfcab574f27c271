"""The fields of an endpoint in the command line are those of the contract: options, documents and merge patches."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic_core import from_json, to_json

from hookwright_api.view.table_records import EventTypeRecord
from hookwright_api.webhook_document import endpoint_detail, spec_of
from hookwright_cli.command_errors import CommandError
from hookwright_cli.command_line import app
from hookwright_cli.commands.endpoint_commands import described, merge_patch
from hookwright_cli.contract import ENDPOINT_FIELDS
from hookwright_cli.terminal.columns import ENDPOINTS
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.ways.resource_forms import endpoint_document, endpoint_patch, event_type_document
from hookwright_crds.command_line_data import text
from hookwright_crds.endpoint_fields import EndpointFields
from hookwright_crds.reading import read
from hookwright_crds.resources import WebhookEndpoint

FILE = Path(__file__).parents[3] / "cli" / "hookwright_cli" / "contract.json"
META = {"name": "orders", "namespace": "acme", "creationTimestamp": "2026-01-31T12:00:00Z", "labels": {"team": "a"}}
PUSH = {
    "url": "https://example.com/hooks", "headers": {"X-Team": "a"}, "rateLimit": {"perMinute": 60}, "suspend": True,
    "maxInFlight": 2, "timeout": "5s", "format": "cloudevents", "expiresAt": "2026-02-28T12:00:00Z",
}  # fmt: skip
STATUS = {
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Delivering", "message": "m", "observedGeneration": 1,
         "lastTransitionTime": "2026-01-31T12:00:00Z"},
    ],
    "deliveries": {"pending": 1, "lastAttemptTime": "2026-01-31T12:00:00Z", "lastStatusCode": 200},
}  # fmt: skip


def test_the_file_is_what_the_contract_generates() -> None:
    """Every change of a field changes the command line: run `make crds`."""
    assert FILE.read_text(encoding="utf-8") == text()


@pytest.mark.parametrize("fields", [PUSH, {"pull": {}}, {"pull": {"lease": "1m"}}, {"url": "https://example.com/"}])
@pytest.mark.parametrize("status", [{}, STATUS])
def test_a_kubeconfig_shows_the_document_of_v1(fields: dict[str, Any], status: dict[str, Any]) -> None:
    """Scripts read the same fields in the same order through both ways."""
    spec = {"projectRef": {"name": "billing"}, "events": ["delivered"], **fields}
    resource = {"metadata": META, "spec": spec, "status": status}
    expected = from_json(to_json(endpoint_detail(read(WebhookEndpoint, resource)[0])))
    document = endpoint_document(resource)
    assert document == expected
    assert list(document) == list(expected)


@pytest.mark.parametrize(
    "fields",
    [{}, {"example": '{"amount": 1}', "payloadSchema": '{"type": "object"}', "deprecated": True}],
)
def test_a_kubeconfig_shows_an_event_type_as_v1_does(fields: dict[str, Any]) -> None:
    """The same fields in the same order."""
    resource = {"metadata": {**META, "name": "invoice.paid"}, "spec": {"meaning": "A customer paid.", **fields}}
    expected = from_json(EventTypeRecord.of(resource).rendered)
    assert event_type_document(resource) == expected
    assert list(event_type_document(resource)) == list(expected)


@pytest.mark.parametrize(
    "patch",
    [
        {"rate_limit": {"per_minute": 60}, "max_in_flight": 2, "enabled": False},
        {"rate_limit": None, "expires_at": None, "enabled": None},
        {"url": None, "pull": {}},
        {"pull": {"lease": "1m"}},
        {"headers": {"X-Team": None}},
    ],
)
def test_a_merge_patch_has_one_meaning_in_both_ways(patch: dict[str, Any]) -> None:
    """A null, an empty object and keys of a map stay."""
    assert endpoint_patch(patch) == {"spec": spec_of(patch)}


def test_each_field_has_an_option_a_column_and_a_line() -> None:
    """A new field of the contract needs no change of the command line."""
    names = list(EndpointFields.model_fields)
    assert [field.name for field in ENDPOINT_FIELDS] == names
    group: Any = typer.main.get_command(app)
    for verb in ("create", "edit"):
        options = {name for option in group.commands["endpoints"].commands[verb].params for name in option.opts}
        expected = {name for field in ENDPOINT_FIELDS if field.form != "parts" for name in field.options}
        assert (
            expected
            | {"--lease", "--retry-schedule", "--retry-after-max", "--end-on", "--signature-form", "--signature-header"}
            <= options
        )
    extra = {"extraSignature": {"form": "github", "header": "X-Hub-Signature-256"}}
    spec = {"projectRef": {"name": "billing"}, "events": ["delivered"], **PUSH, **extra}
    lines = described(Screen(), endpoint_document({"metadata": META, "spec": spec}))
    titles = {column.title for column in ENDPOINTS}
    for name in set(names) - {"headers", "pull"}:
        assert name.upper().replace("_", "-") in titles
        assert name.replace("_", " ").capitalize() in lines.replace("URL", "Url")
    assert "60 per minute" in lines
    assert "github form, X-Hub-Signature-256 header" in lines


def test_options_become_a_merge_patch(tmp_path: Path) -> None:
    """A list has parts, the value of a header is in a file, 0 and `never` remove, a URL and pull replace each other."""
    (tmp_path / "token").write_text("secret\n")
    options = {"event": ["delivered,wa_*", "sms_*"], "header": [f"Authorization=@{tmp_path}/token"], "max_in_flight": 2}
    assert merge_patch(options) == {
        "events": ["delivered", "wa_*", "sms_*"],
        "headers": {"Authorization": "secret"},
        "max_in_flight": 2,
    }
    assert merge_patch({"rate_limit": 0, "expires_at": "never"}) == {"rate_limit": None, "expires_at": None}
    assert merge_patch({"rate_limit": 60}) == {"rate_limit": {"per_minute": 60}}
    assert merge_patch({"to": "https://example.com/"}) == {"url": "https://example.com/", "pull": None}
    assert merge_patch({"pull": True, "lease": "1m"}) == {"pull": {"lease": "1m"}, "url": None}
    assert merge_patch({"lease": "1m"}) == {"pull": {"lease": "1m"}}
    for wrong in ({"pull": True}, {"lease": "1m"}):
        with pytest.raises(CommandError, match="--to URL sends requests"):
            merge_patch({"to": "https://example.com/", **wrong})
    for option in ("header", "secret_header"):
        form = re.escape("NAME=@FILE" if option == "header" else "NAME=[PREFIX]@FILE")
        with pytest.raises(CommandError, match=f"'Authorization' must be {form}") as error:
            merge_patch({option: ["Authorization=secret"]})
        assert "secret" not in str(error.value).partition("'")[2]


def test_credentials_are_in_files_and_need_v1(tmp_path: Path) -> None:
    """An empty text removes one; no value is an argument, and with a kubeconfig the message names YAML."""
    path = tmp_path / "token"
    path.write_text("secret\n")
    patch = merge_patch({"secret_header": [f"Authorization=Bearer @{path}", "X-Old="]})
    assert patch == {"secret_headers": {"Authorization": {"prefix": "Bearer ", "value": "secret"}, "X-Old": None}}
    options = {
        "oauth2_client_id": "a",
        "oauth2_client_secret": str(path),
        "oauth2_param": ["audience=https://a/?b=c@d"],
    }
    client = {"client_id": "a", "client_secret": "secret", "endpoint_params": {"audience": "https://a/?b=c@d"}}
    assert merge_patch(options) == {"oauth2": client}
    assert merge_patch({"oauth2_client_id": ""}) == {"oauth2": None}
    for fields in (patch, {"oauth2": client}):
        with pytest.raises(CommandError, match="cannot be set with a kubeconfig") as error:
            endpoint_patch(fields)
        assert "secret\n" not in str(error.value)
