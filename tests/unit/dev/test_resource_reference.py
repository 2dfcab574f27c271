"""The generated pages of the contract name everything that the contract has."""

from collections.abc import Iterator
from typing import Any

import pytest

from hookwright_crds.events import CATALOGUE
from hookwright_crds.generate import definition
from hookwright_crds.resources import KINDS
from hookwright_dev.resource_reference import built_in_types, resources_page


def _fields(schema: dict[str, Any], at: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        if name != "conditions":
            yield from _fields(field, f"{at}.{name}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_kind_is_listed_with_its_meaning(kind: Any) -> None:
    """A field without a description would have no meaning."""
    schema = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    page = (
        resources_page().partition(f"\n## {kind.names.kind}\n")[2].partition("\n## ")[0].partition("\n### Rules of ")[0]
    )
    for part in ("spec", "status"):
        for path in _fields(schema["properties"][part], part):
            (entry,) = [line for line in page.splitlines() if line.startswith(f"- `{path}` (")]
            assert not entry.endswith(": "), entry


def test_every_event_type_has_a_meaning() -> None:
    """The page has one sentence for each type of the catalogue."""
    for types in CATALOGUE.values():
        for name, meaning in types.items():
            assert meaning.endswith(".")
            assert f"| `{name}` | {meaning} |" in built_in_types()
