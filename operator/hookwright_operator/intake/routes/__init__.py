"""The intake's routes, one module per resource, all below ``/v1alpha1/namespaces/{namespace}``."""

from starlette.routing import Route

from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.routes.deliveries import DeliveryRoutes
from hookwright_operator.intake.routes.endpoints import ENDPOINT, EndpointRoutes
from hookwright_operator.intake.routes.messages import MessageRoutes, TakeRoute
from hookwright_operator.intake.routes.replays import ReplayRoutes
from hookwright_operator.intake.routes.searches import SearchRoutes
from hookwright_operator.intake.routes.statistics import StatisticsRoutes
from hookwright_operator.services import IntakeServices
from hookwright_runtime.bounds import LOG_READS, OTHER_REQUESTS
from hookwright_runtime.places import Places
from hookwright_runtime.request_body import Bodies


def routes(services: IntakeServices, auth: ReviewAuth, bodies: Bodies, parsing: Places, take: TakeRoute) -> list[Route]:
    """Return all routes except that of events; those that read or write the store share places."""
    places = Places(OTHER_REQUESTS)
    reads = Places(LOG_READS)
    return [
        *EndpointRoutes(services, auth, bodies, parsing).routes(),
        *SearchRoutes(services, auth, reads).routes(),
        *DeliveryRoutes(services, auth, places, reads).routes(),
        # HEAD is a method of its own: with the method GET alone, Starlette would lease messages for it too.
        Route(f"{ENDPOINT}/messages", take, methods=["GET"]),
        *MessageRoutes(services, auth, bodies, places).routes(),
        *StatisticsRoutes(services, auth, reads).routes(),
        *ReplayRoutes(services, auth, bodies, places, reads).routes(),
    ]
