"""The credentials of an endpoint, which the API hands over."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_crds.documents.credential_bodies import CredentialsChange
from hookwright_crds.operations import Right
from hookwright_operator.intake.context import IntakeContext, client_of
from hookwright_runtime.problems import ProblemError, unavailable

_BODY_LIMIT: Final = 256 * 1024


async def change(intake: IntakeContext, request: Request, right: Right) -> Response:
    """Create and delete Secrets of an endpoint, which may be so new that no watch has shown it.

    Raises:
        ProblemError: 409, a name is in use, the quota is used up, or this replica writes none; 503, another uid.
    """
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    caller = await intake.permit(request, right, name)
    secrets = intake.services.credential_secrets
    if secrets is None:
        detail = (
            "the pods that deliver write no Secret in this installation; set the credential in YAML, beside a Secret"
        )
        raise ProblemError(409, detail)
    body = await intake.document(request, CredentialsChange, _BODY_LIMIT)
    endpoint = intake.services.registry.find(namespace, name)
    if endpoint is not None and endpoint.uid != body.uid:
        raise unavailable("another webhook has this name now")
    with await intake.credential_changes.acquire(namespace):
        await secrets.change(namespace, name, body)
    action = "credential.write" if body.created else "credential.delete"
    intake.services.audit.record(
        action, actor=caller.username, client=client_of(request.scope), organization=namespace, target=name
    )
    return Response(status_code=204)
