"""The rights of an installation's ServiceAccounts, and their uses in the API server's audit log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from support.json_lines import entries

from hookwright_dev.cluster.installation import MANIFESTS, SYSTEM_NAMESPACE, USERS_NAMESPACE

Object = dict[str, Any]
_USER = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"


class Right(NamedTuple):
    """One verb on one kind; ``own``: only in the installation's two namespaces, else everywhere."""

    own: bool
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        scope = "in the installation's namespaces" if self.own else "everywhere"
        return f"{self.verb} {self.resource}.{self.group or 'core'} {scope}"


def granted(account: str) -> set[Right]:
    """Return the rights that the manifests grant a ServiceAccount, one per verb and kind."""
    documents = [
        document
        for path in sorted(MANIFESTS.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document
    ]
    bound = {
        (document["roleRef"]["kind"], document["roleRef"]["name"])
        for document in documents
        if any(subject["name"] == account for subject in document.get("subjects", ()))
    }
    roles = [role for role in documents if (role["kind"], role["metadata"]["name"]) in bound]
    assert roles, f"nothing is granted to {account}"
    return {right for role in roles for rule in role["rules"] for right in _spelled(rule, role["kind"] == "Role")}


def _spelled(rule: Object, own: bool) -> Iterator[Right]:  # noqa: FBT001 - a field of the result
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Right(own, group, resource, verb)


class Use(NamedTuple):
    """One action of a ServiceAccount, or one permission that a review asked about."""

    account: str
    right: Right
    allowed: bool


def uses(audit_log: Path) -> list[Use]:
    """Return every request of the installation's ServiceAccounts to the API server.

    If the operator's intake permits a caller's request, that is a use of the caller's rights, which the review shows.
    """
    matches = []
    for event in entries(audit_log):
        reference = event.get("objectRef")
        if reference is None:  # discovery of kinds, which every user may read
            continue
        user, allowed = event["user"]["username"], event["responseStatus"].get("code") != 403
        if user.startswith(_USER):
            matches.append(_use(user, reference, event["verb"], allowed=allowed))
        if reference["resource"] == "subjectaccessreviews":
            matches += _reviewed(event)
    return matches


def _reviewed(event: Object) -> Iterator[Use]:
    spec = event["requestObject"]["spec"]
    if spec["user"].startswith(_USER):
        attributes, status = spec["resourceAttributes"], event["responseObject"]["status"]
        reference = {**attributes, "apiGroup": attributes["group"]}
        yield _use(spec["user"], reference, attributes["verb"], allowed=bool(status.get("allowed")))


def _use(user: str, reference: Object, verb: str, *, allowed: bool) -> Use:
    resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
    is_own = reference.get("namespace") in {SYSTEM_NAMESPACE, USERS_NAMESPACE}
    return Use(user.removeprefix(_USER), Right(is_own, reference.get("apiGroup", ""), resource, verb), allowed)
