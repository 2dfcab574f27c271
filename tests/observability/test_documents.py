"""Troubleshooting and the security model agree with the code and RBAC."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwright_crds import conditions
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator import reconcile
from hookwright_operator.delivery.http import error_messages
from hookwright_operator.delivery.http.error_messages import Step, status_words, timeout_words

DOCS = Path(__file__).resolve().parents[2] / "docs"
TROUBLESHOOTING = (DOCS / "troubleshooting.md").read_text()
OPERATOR = f"system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-operator"
NO_REASONS = {
    "WebhookEndpoint",
    "ApiKey",
    "Project",
    "EventType",
    "Secret",
    "Event",
    "Ready",
    "Reachable",
    "True",
    "False",
}
NO_REASONS |= {"Unknown", "Normal", "Warning", "Keep", "Omit", "ConfigMap", "Reconciling", "Stalled"}
PAGES = ["runbook.md", "troubleshooting.md", "security.md", "multi-tenancy.md", "bounds.md", "backup.md", "logs.md"]


def _reasons() -> set[str]:
    """Return every CamelCase string of reconciling and the registry: reasons of conditions and Events."""
    folder = Path(reconcile.__file__).parent
    return {
        text
        for path in (*folder.glob("*.py"), folder.parent / "registry.py", Path(conditions.__file__))
        for text in _strings(path)
        if re.fullmatch(r"(?:[A-Z][a-z]+)+", text) and text not in NO_REASONS
    }


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_reason_of_a_condition_or_event_is_explained() -> None:
    """Every reason that kubectl shows is in the documents."""
    reasons = _reasons()
    assert {"ProjectNotFound", "DeliveryFailed", "Delivering"} <= reasons
    assert [reason for reason in sorted(reasons) if f"`{reason}`" not in TROUBLESHOOTING] == []


def test_no_reason_is_explained_that_is_not_there() -> None:
    """The tables' columns of reasons and Events contain only reasons in the code."""
    text = re.findall(r"^\| (?:[\w, ]+ \| )?`((?:[A-Z][a-z]+){2,})` \|", TROUBLESHOOTING, re.MULTILINE)
    assert len(text) >= 10
    assert set(text) <= _reasons()


@pytest.mark.parametrize(
    "words",
    [
        *error_messages._ERRNO_WORDS.values(),
        status_words(302).partition(" (")[0],
        status_words(500).rpartition(" Internal")[0],
        *(timeout_words(5, step).replace("5 s", "…") for step in Step if step not in (Step.PROXY, Step.BODY)),
    ],
)
def test_the_words_of_an_attempts_error_are_explained(words: str) -> None:
    """Every error in the condition or the delivery log is in the documents."""
    assert f"`{words}`" in TROUBLESHOOTING


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("get", "/secrets", True),
        ("create", "/secrets", True),
        ("create", "authentication.k8s.io/tokenreviews", True),
        ("create", "/pods", False),
        ("get", "/pods", False),
        ("update", "/configmaps", False),
        ("create", "rbac.authorization.k8s.io/rolebindings", False),
        ("update", "rbac.authorization.k8s.io/clusterroles", False),
        ("update", "apiextensions.k8s.io/customresourcedefinitions", False),
        ("create", "/serviceaccounts/token", False),
        ("impersonate", "/users", False),
        ("create", "hookwright.dev/webhookendpoints", False),
        ("delete", "hookwright.dev/projects", False),
    ],
)
def test_the_operator_may_do_what_the_security_model_says(
    shared_cluster: Cluster, verb: str, resource: str, *, allowed: bool
) -> None:
    """The rights are Secrets, Events, reviews and Hookwright's kinds, and none on workloads or cluster roles."""
    group, _, kind = resource.partition("/")
    assert shared_cluster.objects.may(OPERATOR, verb, kind, group=group) is allowed


@pytest.mark.parametrize("page", PAGES)
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    """Each link points to an existing page and an existing heading."""
    for target in re.findall(r"\]\(((?!https?:)[^)]*)\)", (DOCS / page).read_text()):
        name, _, anchor = target.partition("#")
        page_path = DOCS / (name or page)
        assert page_path.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", page_path.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, target
