"""The intake's routes, one module per resource, all below ``/v1alpha1/namespaces/{namespace}``."""

from starlette.routing import Route

from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.places import OTHER_REQUESTS, OTHER_REQUESTS_OF_NAMESPACE, Places
from hookwright_operator.intake.routes.deliveries import DeliveryRoutes
from hookwright_operator.intake.routes.endpoints import EndpointRoutes
from hookwright_operator.intake.routes.replays import ReplayRoutes
from hookwright_operator.services import IntakeServices
from hookwright_runtime.request_body import Bodies


def routes(services: IntakeServices, auth: ReviewAuth, bodies: Bodies) -> list[Route]:
    """Return all routes except that of events; those that read or write the store share slots."""
    places = Places("requests", total=OTHER_REQUESTS, each=OTHER_REQUESTS_OF_NAMESPACE)
    return [
        *EndpointRoutes(services, auth).routes(),
        *DeliveryRoutes(services, auth, places).routes(),
        *ReplayRoutes(services, auth, bodies, places).routes(),
    ]
