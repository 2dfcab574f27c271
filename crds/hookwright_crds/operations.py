"""Pure: the table of the operations that the operator answers, each written once.

The routes of `/v1`, their OpenAPI description, the forwarder of the API and the routes of the intake are made from it.
"""

import inspect
import re
from typing import Final, NamedTuple

from hookwright_crds.documents.delivery_bodies import (
    DeliveriesAnswer,
    DeliveryConditions,
    DeliveryRetryAnswer,
    DeliverySearch,
    DetailedDelivery,
    EventAnswer,
    LogQuery,
)
from hookwright_crds.documents.event_bodies import EventsAnswer
from hookwright_crds.documents.forms import Answer, Request
from hookwright_crds.documents.message_bodies import (
    AckRequest,
    MessageResultsAnswer,
    MessagesAnswer,
    NackRequest,
    TakeQuery,
)
from hookwright_crds.documents.replay_bodies import BegunReplayAnswer, ReplayAnswer, ReplayRequest, ReplaysAnswer
from hookwright_crds.documents.statistics_bodies import StatisticsAnswer, StatisticsQuery, WebhookStatisticsAnswer
from hookwright_crds.documents.webhook_bodies import TestAnswer
from hookwright_crds.permissions import MANAGE, PULL, READ, SEND, TEST, Permission

NAMESPACE: Final = "/v1alpha1/namespaces/{namespace}"
"""The beginning of the intake's paths."""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NOUNS: Final = {"webhooks": "webhook", "projects": "project", "deliveries": "delivery", "events": "event"}

_TAGS: Final = ("webhooks", "deliveries", "messages", "replays", "statistics", "events")

Right = tuple[str, str]
"""A verb and a subresource of ``webhookendpoints``, in the terms of RBAC."""
_LOG: Final[Right] = ("get", "deliveries")
_AGAIN: Final[Right] = ("create", "retry")
_PULL: Final[Right] = ("create", "pull")


class ApiOperation(NamedTuple):
    """An operation of `/v1` that the operator answers.

    Attributes:
        name: its ``operationId``.
        path: on `/v1`; it says whether the operation concerns a webhook, a project, or all that the caller may see.
        permission: of the caller of `/v1`.
        right: of the caller of the intake, on ``webhookendpoints``.
        answer: of status 204, None.
        description: for callers of `/v1`.
        status: of a success.
        query: its parameters, apart from ``project``.
        body: None also for a body that is forwarded unchanged.
        audit: the action in the audit log of the API; empty if the operation only reads, or logs by itself.
    """

    name: str
    method: str
    path: str
    permission: Permission
    right: Right
    answer: type[Answer] | None
    description: str
    status: int = 200
    query: type[Request] | None = None
    body: type[Request] | None = None
    audit: str = ""

    @property
    def function_name(self) -> str:
        """The name in the form of a function, from which FastAPI makes the title."""
        return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", self.name)

    @property
    def documentation(self) -> str:
        """The description without the indentation of this file."""
        return inspect.cleandoc(self.description)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the path, each with the noun of its object."""
        parts = self.path.split("/")
        return {
            part[1:-1]: _NOUNS.get(parts[place - 1], part[1:-1])
            for place, part in enumerate(parts)
            if _PARAMETER.fullmatch(part)
        }

    @property
    def subject(self) -> str:
        """The object of the operation in words, such as ``the delivery``; a search can name a webhook."""
        return f"the {[*self.parameters.values()][-1] if self.parameters else 'webhook'}"

    @property
    def tag(self) -> str:
        """The section of the description: the last collection in the path."""
        return [part for part in self.path.split("/") if part in _TAGS][-1]

    @property
    def scope(self) -> str:
        """What the path names first: ``webhook``, ``project``, or nothing if the caller sees all of its objects."""
        noun = next(iter(self.parameters.values()), "")
        return noun if noun in ("webhook", "project") else ""

    @property
    def intake_path(self) -> str:
        """The path on the intake."""
        below = self.path.removeprefix("/v1/").replace("webhooks/{id}", "webhookendpoints/{name}")
        return f"{NAMESPACE}/{below}"


OPERATIONS: Final = (
    ApiOperation(
        "testWebhook", "POST", "/v1/webhooks/{id}/test", TEST, ("create", "test"), TestAnswer,
        """Send one signed event now, and return the result. There is no retry.

        Without a body it is a synthetic `delivered` event. Without a payload, an own type has its example. The delivery
        log shows it with `test: true`. 429 means that too many tests are in progress: 2 of one endpoint, or 16 of one
        organization.
        """,
    ),
    ApiOperation(
        "takeMessages", "GET", "/v1/webhooks/{id}/messages", PULL, _PULL, MessagesAnswer,
        """Take messages of an endpoint with pull. Acknowledge each one before its lease ends.

        A request changes state: it leases the messages, and a lease that ends is a failed attempt. An answer has at
        most 1 MiB of bodies and 1 MiB of headers, or one larger message. So it may have fewer messages than `limit`
        although more are due.
        """,
        query=TakeQuery,
    ),
    ApiOperation(
        "ackMessages", "POST", "/v1/webhooks/{id}/messages/ack", PULL, _PULL, MessageResultsAnswer,
        "Acknowledge messages: their deliveries are delivered. A repetition of the request has the same result.",
        body=AckRequest, audit="message.ack",
    ),
    ApiOperation(
        "nackMessages", "POST", "/v1/webhooks/{id}/messages/nack", PULL, _PULL, MessageResultsAnswer,
        "Refuse messages: the attempt failed, and the next one follows by the retry schedule or after `delay`.",
        body=NackRequest, audit="message.nack",
    ),
    ApiOperation(
        "beginReplay", "POST", "/v1/webhooks/{id}/replays", MANAGE, _AGAIN, BegunReplayAnswer,
        """Send deliveries of a time range again, in the background, the oldest first.

        409 means that another replay of the webhook is running.
        """,
        status=202, body=ReplayRequest, audit="webhook.replay",
    ),
    ApiOperation(
        "listReplays", "GET", "/v1/webhooks/{id}/replays", READ, _LOG, ReplaysAnswer,
        "List the latest replays of an endpoint, newest first.",
    ),
    ApiOperation(
        "getReplay", "GET", "/v1/webhooks/{id}/replays/{replay}", READ, _LOG, ReplayAnswer,
        "Show a replay with its progress.",
    ),
    ApiOperation(
        "cancelReplay", "DELETE", "/v1/webhooks/{id}/replays/{replay}", MANAGE, _AGAIN, None,
        "Cancel a replay; deliveries that are pending already stay pending. 409 means that the replay is completed.",
        status=204, audit="replay.cancel",
    ),
    ApiOperation(
        "getWebhookStatistics", "GET", "/v1/webhooks/{id}/statistics", READ, _LOG, WebhookStatisticsAnswer,
        "Show how many deliveries of an endpoint succeeded and failed, and how long attempts took, by time.",
        query=StatisticsQuery,
    ),
    ApiOperation(
        "getProjectStatistics", "GET", "/v1/projects/{project}/statistics", READ, _LOG, StatisticsAnswer,
        "Show the same for all endpoints of a project, also for deleted ones; a key shows only its own project.",
        query=StatisticsQuery,
    ),
    ApiOperation(
        "listDeliveries", "GET", "/v1/webhooks/{id}/deliveries", READ, _LOG, DeliveriesAnswer,
        "List an endpoint's deliveries, newest first, each with its attempts.",
        query=LogQuery,
    ),
    ApiOperation(
        "searchDeliveries", "GET", "/v1/deliveries", READ, _LOG, DeliveriesAnswer,
        """Search the deliveries of all webhooks of a project, newest first.

        All conditions apply together. A session searches its whole organization, or the project in `?project=`.
        """,
        query=DeliveryConditions,
    ),
    ApiOperation(
        "findDeliveries", "POST", "/v1/search/deliveries", READ, _LOG, DeliveriesAnswer,
        """Search the deliveries also by their recipient. It only reads, and has a body so that no log has a recipient.

        No index has recipients. One page examines up to 10,000 deliveries, the newest first, and skips projects whose
        log has no payloads. `examined_since` shows how far it came, and `next` continues.
        """,
        body=DeliverySearch,
    ),
    ApiOperation(
        "getDelivery", "GET", "/v1/deliveries/{id}", READ, _LOG, DetailedDelivery,
        "Show one delivery with its request as it was sent, and each attempt with the headers of request and answer.",
    ),
    ApiOperation(
        "retryDelivery", "POST", "/v1/deliveries/{id}/retry", MANAGE, _AGAIN, DeliveryRetryAnswer,
        """Send a failed or delivered delivery again, or try a pending one now.

        A delivery that is sent again begins its retry schedule anew. A pending one keeps the number of its attempts; if
        an attempt is under way, no second one is made.
        """,
        status=202, audit="delivery.retry",
    ),
    ApiOperation(
        "sendEvents", "POST", "/v1/events", SEND, ("create", "events"), EventsAnswer,
        """Accept one event or an array of up to 1,000, all or none; 202 after they are stored durably.

        An event with an `id` can be sent again for 24 hours without a second delivery. With an Idempotency-Key, an
        event without an id gets one that is derived from the key and the event's content.
        """,
        status=202,
    ),
    ApiOperation(
        "getEvent", "GET", "/v1/events/{id}", READ, _LOG, EventAnswer,
        """Show one event with its body and its deliveries, the newest 100 first.

        An event without a subscriber is stored only if the Project has `missedEvents: Keep`.
        """,
    ),
)  # fmt: skip
"""In the order of the OpenAPI description."""
OPERATION: Final = {operation.name: operation for operation in OPERATIONS}
"""Each operation by its name."""
