"""Projects of an organization: listed, and created and deleted where the organization allows it.

The API may write Projects only in namespaces that grant its ServiceAccount the ClusterRole of the chart.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from hookwright_api.auth.callers import caller_of, project_named
from hookwright_api.http.openapi import sends
from hookwright_api.http.request_checks import GuardedRoute, audit, needs
from hookwright_api.http.responses import answer, from_kube
from hookwright_api.routes.created_objects import created_object
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import EndpointRecord, KeyRecord, ProjectRecord
from hookwright_api.view.view import View
from hookwright_crds import GROUP
from hookwright_crds.base import object_path
from hookwright_crds.documents.project_bodies import (
    DeletedProjectAnswer,
    ProjectDetailAnswer,
    ProjectRequest,
    ProjectsAnswer,
)
from hookwright_crds.permissions import ADMINISTER, READ
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError

router = APIRouter(prefix="/v1/projects", tags=["projects"], route_class=GuardedRoute)

_GRANT_SECONDS: Final = 1.0
"""Time limit for asking the API server, so that pages are shown without it."""

Force = Annotated[bool, Query(description="true deletes a project that has webhooks or keys, with all of them.")]


@router.get("", response_model=ProjectsAnswer, operation_id="listProjects")
@needs(READ)
async def list_projects(request: Request) -> Response:
    """List the projects of the organization by name; a key sees its own project only."""
    caller, view = caller_of(request), services_of(request).view
    records = view.projects.find("organization", caller.organization)
    visible = [entry for entry in records if caller.key is None or entry.identity.name == caller.key.project]
    return answer({"data": [_shown(view, entry) for entry in sorted(visible, key=lambda entry: entry.identity.name)]})


@router.get("/{project}", response_model=ProjectDetailAnswer, operation_id="getProject")
@needs(READ)
async def get_project(request: Request, project: str) -> Response:
    """Show a project, by its name or uid; a key sees its own project only."""
    return answer(_shown(services_of(request).view, project_named(request, project)))


@router.post(
    "",
    status_code=201,
    response_model=ProjectDetailAnswer,
    operation_id="createProject",
    responses={201: sends("Location")},
)
@needs(ADMINISTER)
async def create_project(request: Request, body: ProjectRequest) -> Response:
    """Create a project. It accepts events as soon as the operator has seen it, usually within a second.

    403 also means that the organization does not allow it, and says how to allow it. 409 means that a project of this
    name exists, or that the organization's quota is used up.
    """
    services, caller = services_of(request), caller_of(request)
    spec = {"displayName": body.display_name} if body.display_name else {}
    manifest = created_object("Project", caller.organization, body.name, spec, creator=caller.actor)
    try:
        resource = await services.kube.post(object_path("projects", caller.organization), manifest)
    except KubeError as error:
        if error.reason == "AlreadyExists":
            raise ProblemError(409, f"the project {body.name} exists; choose another name") from None
        raise await _refusal(services, error, "create", caller.organization) from None
    services.view.projects.put(resource)
    audit(request, "project.create", target=body.name, project=body.name)
    return answer(_shown(services.view, ProjectRecord.of(resource)), 201, Location=f"/v1/projects/{body.name}")


@router.delete("/{project}", response_model=DeletedProjectAnswer, operation_id="deleteProject")
@needs(ADMINISTER)
async def delete_project(request: Request, project: str, *, force: Force = False) -> Response:
    """Delete a project that /v1 created, with its webhooks and keys, and return what was deleted.

    A project that has webhooks or keys needs `force=true`; otherwise 409 says what the deletion discards. A declared
    project is a 409 that names its owner. 403 also means that the organization does not allow it.
    """
    services = services_of(request)
    record = project_named(request, project)
    identity = record.identity
    if identity.declared_by:
        owner = identity.declared_by
        raise ProblemError(409, f"the project {identity.name} is declared by {owner}; delete it there")
    endpoints, keys = _children(services.view, record)
    losses = _discarded(identity.name, endpoints, keys)
    if (endpoints or keys) and not force:
        raise ProblemError(409, _warning(losses))
    try:
        await services.kube.delete(object_path("projects", identity.namespace, identity.name), uid=identity.uid)
    except KubeError as error:
        raise await _refusal(services, error, "delete", identity.namespace) from None
    services.view.projects.forget(record)
    audit(request, "project.delete", target=identity.name, project=identity.name)
    return answer(losses)


def _children(view: View, project: ProjectRecord) -> tuple[list[EndpointRecord], list[KeyRecord]]:
    reference = (project.identity.namespace, project.identity.name)
    return view.endpoints.find("project", reference), view.keys.find("project", reference)


def _shown(view: View, project: ProjectRecord) -> dict[str, Any]:
    endpoints, keys = _children(view, project)
    return {
        "name": project.identity.name,
        "uid": project.identity.uid,
        "display_name": project.display_name,
        "declared_by": project.identity.declared_by or None,
        "webhooks": len(endpoints),
        "keys": len(keys),
        "delivery_log": {
            "payloads": project.delivery_log.payloads.lower(),
            "missed_events": project.delivery_log.missed_events.lower(),
        },
        "created_at": project.identity.created,
    }


def _discarded(name: str, endpoints: Sequence[EndpointRecord], keys: Sequence[KeyRecord]) -> dict[str, Any]:
    """Return what the deletion of a project deletes: garbage collection deletes only objects that /v1 created."""
    webhooks = [endpoint for endpoint in endpoints if not endpoint.identity.declared_by]
    api_keys = [key for key in keys if not key.identity.declared_by]
    counts = [endpoint.endpoint.status.deliveries for endpoint in webhooks]
    return {
        "name": name,
        "webhooks": len(webhooks),
        "keys": len(api_keys),
        "declared": len(endpoints) + len(keys) - len(webhooks) - len(api_keys),
        "pending_deliveries": sum(count.pending for count in counts if count is not None),
    }


def _warning(losses: dict[str, Any]) -> str:
    return (
        "the project {name} is not empty: its deletion deletes {webhooks} webhooks with {pending_deliveries} pending "
        "deliveries, revokes {keys} keys, and leaves {declared} declared objects without a project; "
        "send ?force=true to delete it"
    ).format(**losses)


async def _refusal(services: Services, error: KubeError, verb: str, organization: str) -> ProblemError:
    """Return the problem for a write of a project that the API server refused."""
    if error.status == 403 and (command := await missing_grant(services, verb, organization)):
        return ProblemError(
            403,
            f"the organization does not allow /v1 to {verb} projects; an administrator of the cluster allows it with "
            f"`{command}`",
        )
    if verb == "delete" and error.status == 422:
        # A policy of the cluster refuses the deletion, such as that of protected objects.
        return ProblemError(409, f"a policy of the cluster refuses this: {error.explanation}")
    return from_kube(error, "the project")


async def missing_grant(services: Services, verb: str, organization: str) -> str:
    """Return the command that allows /v1 to create or delete projects of an organization.

    It is empty if the organization allows it, or if the API server does not answer in a second.
    """
    attributes = {"namespace": organization, "verb": verb, "group": GROUP, "resource": "projects"}
    with suppress(KubeError, TimeoutError):
        async with asyncio.timeout(_GRANT_SECONDS):
            spec = {"resourceAttributes": attributes}
            access = await _own_review(services, "authorization", "SelfSubjectAccessReview", spec=spec)
            if not access["allowed"]:
                identity = await _own_review(services, "authentication", "SelfSubjectReview")
                return _grant(identity["userInfo"]["username"], organization)
    return ""


async def _own_review(services: Services, group: str, kind: str, **fields: Any) -> Any:
    """Return the status of a review of our own account."""
    version = f"{group}.k8s.io/v1"
    review = {"apiVersion": version, "kind": kind, **fields}
    return (await services.kube.post(f"/apis/{version}/{kind.lower()}s", review))["status"]


def _grant(user: str, organization: str) -> str:
    """Return the command that binds the ClusterRole of the chart, whose name begins like that of our account."""
    account = user.removeprefix("system:serviceaccount:")
    name = account.partition(":")[2]
    release = name.removesuffix("-api") if name.endswith("-api") else "hookwright"
    subject = f"--user={quote(user)}" if account == user else f"--serviceaccount={account}"
    return f"kubectl create rolebinding projects -n {organization} --clusterrole={release}-project-manager {subject}"
