"""The CRDs are current, complete, cheap to evaluate, and the same at every generation."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookwright_crds.__main__ import main
from hookwright_crds.generate import HEADER, Kind, attach, definition, files
from hookwright_crds.resources import KINDS, WebhookEndpoint
from hookwright_crds.rules import RULES, Rule
from hookwright_crds.structural_schema import SchemaError

CRDS = Path(__file__).resolve().parents[3] / "crds"

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.names.kind)


def schema_of(kind: Kind) -> dict[str, Any]:
    """Return the schema of a kind's only version."""
    [version] = definition(kind)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every node of a schema with its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from nodes(below, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}[]")


def test_the_files_are_what_the_models_generate() -> None:
    """Every change of a model or rule changes its CRD: run `make crds`."""
    assert {path.name: path.read_text(encoding="utf-8") for path in CRDS.glob("*.yaml")} == files()


def test_generating_in_another_process_gives_the_same_bytes() -> None:
    """The order does not depend on hash seeds, so a diff of the files is a change of the contract."""
    program = "import sys; from hookwright_crds.generate import files; sys.stdout.write(''.join(files().values()))"
    result = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "1"}, capture_output=True, check=True
    )
    assert result.stdout.decode() == "".join(files().values())


def test_the_files_say_that_they_are_generated_and_have_no_anchors() -> None:
    """The first line of each file names the command that generates it."""
    for text in files().values():
        assert text.startswith(HEADER)
        assert "&id" not in text


@every_kind
def test_a_kind_has_names_category_and_status(kind: Kind) -> None:
    """The CRDs have the category, the short names and the status subresource."""
    crd = definition(kind)
    assert crd["metadata"]["name"] == f"{kind.names.plural}.hookwright.dev"
    assert crd["spec"]["names"]["categories"] == ["hookwright"]
    assert crd["spec"]["names"]["shortNames"] == [kind.names.short]
    assert crd["spec"]["scope"] == "Namespaced"
    assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}


@every_kind
def test_whatever_a_rule_reads_is_bounded(kind: Kind) -> None:
    """Every string, list and map of a spec has a maximum, which bounds CEL's cost and the size in etcd."""
    spec = schema_of(kind)["properties"]["spec"]
    bounds = {"string": {"maxLength", "enum", "format"}, "array": {"maxItems"}, "object": {"maxProperties"}}
    for path, node in nodes(spec, "spec"):
        if "properties" not in node and node["type"] in bounds:
            assert bounds[node["type"]] & node.keys(), f"{path} has no maximum"


@every_kind
def test_every_field_is_described(kind: Kind) -> None:
    """Every field of spec and status has a description for ``kubectl explain``."""
    for part in ("spec", "status"):
        for path, node in nodes(schema_of(kind)["properties"][part], part):
            assert path.endswith("[]") or node.get("description"), f"{path} has no description"


def test_the_events_of_an_endpoint_say_that_pending_deliveries_are_still_sent() -> None:
    """`kubectl explain` answers before somebody removes a type to stop what waits."""
    events = schema_of(WebhookEndpoint)["properties"]["spec"]["properties"]["events"]
    assert "pending ones are still sent" in events["description"]


@every_kind
def test_a_status_has_no_defaults_and_its_conditions_are_a_map(kind: Kind) -> None:
    """The status has no defaults, because the operator writes it, except for an object that no operator has seen."""
    status = schema_of(kind)["properties"]["status"]
    assert [node["default"] for _, node in nodes(status) if "default" in node] == [{"observedGeneration": -1}]
    conditions = status["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@every_kind
def test_every_rule_has_a_readable_message(kind: Kind) -> None:
    """Every error message is a sentence and never a pattern or an expression."""
    for path, node in nodes(schema_of(kind)):
        for rule in node.get("x-kubernetes-validations", []):
            sentence = rule.get("message") or rule.get("messageExpression")
            assert sentence, f"{path}: {rule['rule']}"
            assert "[A-Z" not in sentence.upper(), f"{path} shows a pattern: {sentence}"
        assert "pattern" not in node, f"{path} would be refused with the bare pattern"


def test_every_kind_has_rules_and_every_rule_a_kind() -> None:
    """A misspelt kind in the table of rules raises an error."""
    assert set(RULES) == {kind.names.kind for kind in KINDS}


@pytest.mark.parametrize("path", ["spec.uri", "spec.url.host", "other"])
def test_a_rule_whose_place_is_gone_raises(path: str) -> None:
    """A rule for a field that the models do not have raises an error."""
    schema = {"properties": {"spec": {"properties": {"url": {"type": "string"}}}}}
    with pytest.raises(SchemaError, match="the models have no field"):
        attach(schema, {path: (Rule("self != ''", "must not be empty"),)})


def test_a_rule_is_added_to_those_that_stand_there() -> None:
    """A field keeps the rule of its pattern and the rules of the table."""
    first = {"rule": "a", "message": "b"}
    schema: dict[str, Any] = {"properties": {"url": {"x-kubernetes-validations": [first]}}}
    attach(schema, {"url": (Rule("c", "d", is_computed=True, field=".e", reason="f"),)})
    second = {"rule": "c", "messageExpression": "d", "fieldPath": ".e", "reason": "f"}
    assert schema["properties"]["url"]["x-kubernetes-validations"] == [first, second]


def test_written_files_are_current(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check accepts the files that the command writes, and prints nothing."""
    folder = tmp_path / "made" / "here"
    assert main([str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0
    assert capsys.readouterr().err == ""
    assert all(yaml.safe_load(path.read_text())["kind"] == "CustomResourceDefinition" for path in folder.iterdir())


def test_stale_files_are_told_with_their_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check exits with 1, prints the differences, and writes nothing."""
    folder = tmp_path / "crds"
    main([str(folder)])
    stale = folder / "projects.yaml"
    stale.write_text(stale.read_text().replace("hwproj", "hwprj"))
    assert main(["--check", str(folder)]) == 1
    output = capsys.readouterr().err
    assert "-    - hwprj" in output
    assert "+    - hwproj" in output
    assert "make crds" in output
    assert "hwprj" in stale.read_text()


def test_missing_and_surplus_files_are_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check also reports a kind that was added or removed."""
    folder = tmp_path / "crds"
    main([str(folder)])
    (folder / "apikeys.yaml").rename(folder / "tokens.yaml")
    assert main(["--check", str(folder)]) == 1
    output = capsys.readouterr().err
    assert "+  name: apikeys.hookwright.dev" in output
    assert "tokens.yaml: nothing generates this file" in output
    (tmp_path / "cli" / "hookwright_cli" / "contract.json").unlink()
    assert main(["--check", str(folder)]) == 1
    assert "contract.json (generated)" in capsys.readouterr().err
