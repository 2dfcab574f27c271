"""The project of a request, and the objects that its caller may see."""

from typing import Annotated

from fastapi import Query, Request

from hookwright_api.auth.callers import Caller
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.services import services_of
from hookwright_api.view.table_records import EndpointRecord
from hookwright_runtime.problems import FieldFault, invalid, not_found

ProjectQuery = Annotated[
    str | None,
    Query(description="The Project's name or uid. Only with a session token, because a key belongs to one project."),
]


def project_named(request: Request, name_or_uid: str) -> str:
    """Return the name of a project of the caller's organization.

    Raises:
        ProblemError: 404.
    """
    record = services_of(request).view.project(caller_of(request).organization, name_or_uid)
    if record is None:
        raise not_found("the project")
    return record.identity.name


def own_project(request: Request, name_or_uid: str) -> str:
    """Return the name of the project of a path; a key sees no other project than its own.

    Raises:
        ProblemError: 404.
    """
    name, key = project_named(request, name_or_uid), caller_of(request).key
    if key is not None and key.project != name:
        raise not_found("the project")
    return name


def optional_project(request: Request, project: str | None) -> str | None:
    """Return the name of the project that a request is limited to; None for all projects of a session's organization.

    Raises:
        ProblemError: 404 no such project; 422 a project together with a key.
    """
    caller: Caller = caller_of(request)
    if caller.key is not None:
        if project is not None:
            raise invalid(FieldFault("project", "must not be sent with a key, because a key belongs to one project"))
        return caller.key.project
    return None if project is None else project_named(request, project)


def one_project(request: Request, project: str | None) -> str:
    """Return the name of the project of a request.

    Raises:
        ProblemError: 404 no such project; 422 a project together with a key, or a session without a project.
    """
    name = optional_project(request, project)
    if name is None:
        raise invalid(FieldFault("project", "is missing; send ?project=<name>"))
    return name


def endpoint_named(request: Request, name: str, project: str | None) -> EndpointRecord:
    """Return an endpoint of a project or, if the project is None, of the organization.

    Raises:
        ProblemError: 404, also for an endpoint of another project.
    """
    record = services_of(request).view.endpoints.get(caller_of(request).organization, name)
    if record is None or (project is not None and record.project != project):
        raise not_found("the webhook")
    return record
