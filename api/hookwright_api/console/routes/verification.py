"""The page "Verify": receivers' code in seven languages, and a check of a request against the endpoint's secret."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.lookup import endpoint_of
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.receiver_samples import SAMPLES
from hookwright_api.console.signature_check import SignatureVerdict, age_sentence, check_signatures, pasted_headers
from hookwright_api.console.templating import render
from hookwright_api.console.visits import form_of
from hookwright_api.routes.webhooks import get_secret
from hookwright_api.services import services_of
from hookwright_crds.permissions import READ
from hookwright_runtime.problems import ProblemError

console = ConsoleRoutes()

_VERIFY: Final = "/projects/{project}/endpoints/{endpoint}/verify"


@console.page(_VERIFY, permission=READ)
async def show_receiver_code(request: Request) -> Response:
    """Show the code of a language, and the form for a request."""
    return _page(request)


def _page(
    request: Request,
    *,
    headers: str = "",
    body: str = "",
    verdicts: list[SignatureVerdict] | None = None,
    age: str = "",
    problem: ProblemError | None = None,
) -> Response:
    project, endpoint = endpoint_of(request)
    chosen = SAMPLES.get(request.query_params.get("language", "")) or next(iter(SAMPLES.values()))
    return render(
        request,
        "verify.html",
        problem.status if problem else 200,
        project=project,
        endpoint=endpoint,
        samples=SAMPLES,
        chosen=chosen,
        headers=headers,
        body=body,
        verdicts=verdicts,
        age=age,
        problem=problem,
    )


@console.action(_VERIFY, uses=(get_secret,))
async def check_request(request: Request) -> Response:
    """Check pasted headers and a body; nothing of them is stored or logged, and the audit log has the secret's read."""
    project, endpoint = endpoint_of(request)
    form = form_of(request)
    pasted, body = form.raw("headers"), form.raw("body")
    made, problem = await attempt(call(request, get_secret, endpoint.identity.name, project=project.identity.name))
    if made is None:
        return _page(request, headers=pasted, body=body, problem=problem)
    headers = pasted_headers(pasted)
    return _page(
        request,
        headers=pasted,
        body=body,
        verdicts=check_signatures(made["secret"], headers, body, previous_until=made["previous_signs_until"]),
        age=age_sentence(headers, services_of(request).now().timestamp()),
    )
