"""Pure: the metrics and labels in a PromQL expression, compared with those in the code."""

import re
from types import ModuleType

from prometheus_client.metrics import MetricWrapperBase

_NAME = re.compile(r"\bhookwright_\w+")
_SELECTOR = re.compile(r"(hookwright_\w+)\{([^}]*)\}")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"([^\"]*)\"")
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
ADDED = frozenset({"namespace", "job", "instance", "pod", "le"})
"""Labels that Prometheus adds when it scrapes, and that of a histogram's buckets."""


def series(*modules: ModuleType) -> dict[str, frozenset[str]]:
    """Return the names of every series that the modules' metrics have, with their labels."""
    samples = {}
    for module in modules:
        for metric in vars(module).values():
            if isinstance(metric, MetricWrapperBase):
                for suffix in _suffixes(str(metric._type)):
                    samples[metric._name + suffix] = frozenset(metric._labelnames)
    return samples


def _suffixes(kind: str) -> tuple[str, ...]:
    return {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(kind, ("",))


def faults(expression: str, known: dict[str, frozenset[str]]) -> list[str]:
    """Return the metrics and labels of an expression that do not exist."""
    names = set(_NAME.findall(expression))
    wrong = [f"no metric {name}" for name in names - known.keys()]
    for name, matchers in _SELECTOR.findall(expression):
        wrong += [
            f"{name} has no label {label}"
            for label, _ in _MATCHER.findall(matchers)
            if label not in known.get(name, frozenset()) | ADDED
        ]
    labels = frozenset().union(*(known.get(name, frozenset()) for name in names)) | ADDED
    for groups in _GROUPING.findall(expression):
        wrong += [
            f"nothing in it has a label {label}"
            for label in map(str.strip, groups.split(","))
            if label and label not in labels
        ]
    return wrong


def matched(expression: str) -> list[tuple[str, str, str]]:
    """Return metric, label and pattern of every matcher in an expression."""
    return [
        (name, label, pattern)
        for name, matchers in _SELECTOR.findall(expression)
        for label, pattern in _MATCHER.findall(matchers)
    ]
