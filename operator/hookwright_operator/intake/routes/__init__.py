"""The intake's routes, one module per resource, all below ``/v1alpha1/namespaces/{namespace}``."""

from starlette.routing import Route

from hookwright_operator.intake.deps import Deps
from hookwright_operator.intake.places import OTHER_REQUESTS, OTHER_REQUESTS_OF_NAMESPACE, Places
from hookwright_operator.intake.routes.deliveries import DeliveryRoutes
from hookwright_operator.intake.routes.endpoints import EndpointRoutes
from hookwright_operator.intake.routes.events import EventRoutes
from hookwright_operator.intake.routes.recoveries import ReplayRoutes
from hookwright_runtime.request_body import Bodies

_NAMESPACE = "/v1alpha1/namespaces/{namespace}"
_ENDPOINT = _NAMESPACE + "/webhookendpoints/{name}"
EVENTS = _NAMESPACE + "/projects/{project}/events"
"""Path for events."""


def routes(deps: Deps, events: EventRoutes, bodies: Bodies) -> list[Route]:
    """Return every route; all routes except that of events share slots."""
    places = Places("requests", total=OTHER_REQUESTS, each=OTHER_REQUESTS_OF_NAMESPACE)
    endpoints, deliveries = EndpointRoutes(deps), DeliveryRoutes(deps, places)
    recoveries = ReplayRoutes(deps, bodies, places)
    return [
        Route(EVENTS, events, methods=["POST"]),
        Route(_ENDPOINT + "/test", endpoints.test, methods=["POST"]),
        Route(_ENDPOINT + "/secret", endpoints.secret),
        Route(_ENDPOINT + "/deliveries", deliveries.page),
        Route(_ENDPOINT + "/deliveries/{delivery}", deliveries.one),
        Route(_ENDPOINT + "/recover", recoveries.begin, methods=["POST"]),
        Route(_ENDPOINT + "/recoveries/{recovery}", recoveries.one),
        Route(_NAMESPACE + "/deliveries/{delivery}/retry", deliveries.retry, methods=["POST"]),
    ]
