"""The charts of an endpoint."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.charts import HEIGHT, WIDTH, WINDOWS, charts_of
from hookwright_api.console.lookup import endpoint_of
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render
from hookwright_api.routes.operator_routes import get_webhook_statistics
from hookwright_api.services import services_of

console = ConsoleRoutes()

_DEFAULT: Final = "24h"


@console.page("/projects/{project}/endpoints/{endpoint}/statistics", uses=(get_webhook_statistics,))
async def show_statistics(request: Request) -> Response:
    """Show deliveries and latencies of an hour, a day or a week; the endpoint's first page includes them too."""
    project, endpoint = endpoint_of(request)
    window = request.query_params.get("window", _DEFAULT)
    window = window if window in WINDOWS else _DEFAULT
    counts, problem = await attempt(
        call(request, get_webhook_statistics, endpoint.identity.name, window=window, project=project.identity.name)
    )
    return render(
        request,
        "statistics.html",
        project=project,
        endpoint=endpoint,
        window=window,
        windows=WINDOWS,
        charts=charts_of(counts) if counts else None,
        messages=counts.get("messages") if counts else None,
        now=services_of(request).now(),
        size=(WIDTH, HEIGHT),
        problem=problem,
    )
