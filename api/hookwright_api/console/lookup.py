"""The objects that the path of a page names, if they belong to the visitor's organization."""

from starlette.requests import Request

from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.scoping import endpoint_named, project_named
from hookwright_api.services import services_of
from hookwright_api.view.table_records import EndpointRecord, ProjectRecord
from hookwright_runtime.problems import not_found


def project_of(request: Request) -> ProjectRecord:
    """Return the project of the path.

    Raises:
        ProblemError: 404.
    """
    name = project_named(request, request.path_params["project"])
    record = services_of(request).view.projects.get(caller_of(request).organization, name)
    if record is None:
        raise not_found("the project")
    return record


def endpoint_of(request: Request) -> tuple[ProjectRecord, EndpointRecord]:
    """Return the project and the endpoint of the path.

    Raises:
        ProblemError: 404.
    """
    project = project_of(request)
    return project, endpoint_named(request, request.path_params["endpoint"], project.identity.name)
