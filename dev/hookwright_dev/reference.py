"""Generator of the files that are made from code: references in ``docs/``, the OpenAPI description, the chart's files.

It also copies the bounds into ``docs/bounds.md``, and the built-in types into ``docs/event-types.md``.

``python -m hookwright_dev.reference`` writes them; ``--check`` exits with 1 if one is stale.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hookwright_api import metrics as api_metrics
from hookwright_api.app import assemble
from hookwright_api.settings import ApiSettings
from hookwright_crds import generated_files
from hookwright_dev.chart.generate import CHART
from hookwright_dev.chart.generate import files as chart_files
from hookwright_dev.chart.settings import written
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.command_reference import commands_page
from hookwright_dev.markdown import GENERATED, table
from hookwright_dev.resource_reference import built_in_types, resources_page
from hookwright_operator import metrics as operator_metrics
from hookwright_operator.settings import OperatorSettings
from hookwright_runtime.bounds import BOUNDS, UNLIMITED, Bound
from hookwright_runtime.problems import TITLES, Code
from hookwright_runtime.settings import ProcessSettings

DOCS: Final = ROOT / "docs"
SETTINGS_TO_KNOW: Final = (
    "watch_namespaces", "database_url", "retry_schedule", "allowed_networks", "max_in_flight", "memory_limit",
    "retain_delivered", "trusted_proxies", "rate_limit_url", "rate_limit_organization",
)  # fmt: skip
"""The settings that docs/settings.md marks."""


def settings_page() -> str:
    """Return docs/settings.md."""
    introduction = (
        "Environment variables, the same under `make up` and in an installation. A wrong one is refused at the start, "
        "with a sentence that names it. Lists are separated by commas; an empty variable counts as not set. Know the "
        "ten settings in bold; most installations keep the others. Defaults are in brackets. In an installation, set "
        "them with the [values of the chart](../charts/hookwright/README.md)."
    )
    parts = [GENERATED, "# Settings", introduction]
    shared = ProcessSettings.model_fields.keys()
    for title, settings in (
        ("Operator and API", ProcessSettings),
        ("Operator", OperatorSettings),
        ("API", ApiSettings),
    ):
        fields = {
            name: field
            for name, field in settings.model_fields.items()
            if settings is ProcessSettings or name not in shared
        }
        parts += [f"## {title}", "\n".join(_described_settings(fields))]
    return "\n\n".join(parts) + "\n"


def metrics_page() -> str:
    """Return docs/metrics.md."""
    parts = [
        GENERATED,
        "# Metrics",
        "Each with its type and labels. Labels are bounded: never a URL, never an id.",
    ]
    items = list(_metric_items(operator_metrics))
    parts += ["## Operator", "\n".join(items)]
    both = {item: f"{item.partition(': ')[0]}: as that of the operator." for item in items}
    parts += ["## API", "\n".join(both.get(item, item) for item in _metric_items(api_metrics))]
    return "\n\n".join(parts) + "\n"


def problems_page() -> str:
    """Return docs/problems.md, whose sections are the targets of each problem's ``type``."""
    introduction = (
        "Every refusal of `/v1` and of the intake is a problem document (RFC 9457). Its `code` is one of these, and "
        "its `type` is the URL of the section here. A code keeps its meaning. A later version may add codes, so "
        "treat an unknown one like its status."
    )
    parts = [GENERATED, "# Problems", introduction]
    for code in Code:
        parts += [f"## {code}", f"Status {code.status}, {TITLES[code.status]}. {code.meaning}"]
    return "\n\n".join(parts) + "\n"


def bounds_page() -> str:
    """Return docs/bounds.md with the present bounds."""
    return _with_part("bounds", table(("Shared resource", "Of all", "Of one", "Beyond it"), map(_bound_row, BOUNDS)))


def _with_part(name: str, part: str) -> str:
    """Return a page with the present state of the generated part, which is between two comments."""
    head, begin, rest = (DOCS / f"{name}.md").read_text().partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- end of the {name} -->\n")
    return f"{head}{begin}\n{part}\n\n{end}{tail}"


def texts() -> dict[Path, str]:
    """Return the text of every file by its path."""
    description = assemble(ApiSettings.model_construct()).openapi()
    return {
        DOCS / "settings.md": settings_page(),
        DOCS / "metrics.md": metrics_page(),
        DOCS / "problems.md": problems_page(),
        DOCS / "resources.md": resources_page(),
        DOCS / "event-types.md": _with_part("event-types", built_in_types()),
        DOCS / "cli-reference.md": commands_page(),
        DOCS / "bounds.md": bounds_page(),
        DOCS / "openapi.json": json.dumps(description, indent=2, ensure_ascii=False) + "\n",
        **{ROOT / path: text for path, text in chart_files(ROOT).items()},
    }


def metric_names(module: ModuleType) -> list[str]:
    """Return the names that a scrape of a process shows, in the order of definition."""
    return [name for _, name in _metrics(module)]


def main(arguments: Sequence[str]) -> int:
    """Write the files, or check them; return the exit code."""
    files = texts()
    surplus = [path for path in (ROOT / CHART / "files" / "crds").glob("*.yaml") if path not in files]
    if "--check" in arguments:
        return generated_files.check(files, "make docs", surplus)
    for path in surplus:
        path.unlink()
    return generated_files.write(files)


def _bound_row(bound: Bound) -> Sequence[str]:
    things = bound.things.removeprefix("of ")
    note = f". {bound.about}" if bound.about else ""
    of_all, of_one = [], []
    if bound.at_once < UNLIMITED:
        of_all.append(f"{bound.at_once} at once{_reserved(bound.amount(bound.at_once_reserved))}")
    if bound.total < UNLIMITED:
        of_all.append(f"{bound.amount(bound.total)}{_reserved(bound.amount(bound.reserved))}")
    if bound.at_once_each < UNLIMITED:
        of_one.append(f"{bound.at_once_each} at once")
    if bound.each < UNLIMITED:
        of_one.append(bound.amount(bound.each))
    waits = "waits for its turn; " if bound.at_once < UNLIMITED or bound.at_once_each < UNLIMITED else ""
    beyond = bound.beyond or f"{waits}429{'; 503' if bound.total < UNLIMITED else ''}"
    return (
        f"{things[0].upper()}{things[1:]}{note}",
        "; ".join(of_all),
        f"{'; '.join(of_one)} for each {bound.holder}" if of_one else "",
        beyond,
    )


def _reserved(amount: str) -> str:
    return "" if amount == "0" else f" ({amount} reserved)"


def _described_settings(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        value = "" if field.default is PydanticUndefined else written(field.default)
        default = (
            ",".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else str(value)
        )
        default = default.lower() if isinstance(value, bool) else default
        variable = f"`HOOKWRIGHT_{name.upper()}`"
        shown = f"**{variable}**" if name in SETTINGS_TO_KNOW else variable
        yield f"- {shown}{f' (`{default}`)' if default else ''}: {field.description or ''}"


def _metrics(module: ModuleType) -> Iterator[tuple[MetricWrapperBase, str]]:
    for metric in vars(module).values():
        if isinstance(metric, MetricWrapperBase):
            yield metric, metric._name + ("_total" if metric._type == "counter" else "")  # noqa: SLF001 - no public name


def _metric_items(module: ModuleType) -> Iterator[str]:
    for metric, name in _metrics(module):
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)  # noqa: SLF001
        kind = f"{metric._type} by {labels}" if labels else metric._type  # noqa: SLF001
        yield f"- `{name}` ({kind}): {metric._documentation}"  # noqa: SLF001


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
