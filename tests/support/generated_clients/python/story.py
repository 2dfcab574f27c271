"""The story of generated clients; tests/integration/api/test_generated_clients.py says what it does."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from hookwright_client import AuthenticatedClient, Client
from hookwright_client.api.auth import login
from hookwright_client.api.deliveries import get_delivery, retry_delivery, search_deliveries
from hookwright_client.api.events import send_events
from hookwright_client.api.keys import create_key
from hookwright_client.api.replays import begin_replay, get_replay
from hookwright_client.api.webhooks import create_webhook, delete_webhook, rotate_webhook_secret, update_webhook
from hookwright_client.models import (
    BegunReplayAnswer,
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliveryRetryAnswer,
    DetailedDelivery,
    Event,
    EventsAnswer,
    KeyRequest,
    LoginAnswer,
    LoginRequest,
    NewKeyAnswer,
    NewWebhookAnswer,
    ReplayAnswer,
    ReplayRequest,
    ReplayRequestState,
    SecretAnswer,
    WebhookDetailAnswer,
    WebhookPatch,
    WebhookRequest,
)

T = TypeVar("T")


def right(kind: type[T], answer: object) -> T:
    """Return the answer with its type, or fail with the problem."""
    assert isinstance(answer, kind), answer
    return answer


def eventually(ask: Callable[[], T], holds: Callable[[T], bool]) -> T:
    """Ask until the answer is right."""
    deadline = time.monotonic() + 120
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


url, email, password, receiver = sys.argv[1:]
opened = Client(base_url=url)
token = right(LoginAnswer, login.sync(client=opened, body=LoginRequest(email=email, password=password))).token
session = AuthenticatedClient(base_url=url, token=token)
made_key = right(NewKeyAnswer, create_key.sync("billing", client=session, body=KeyRequest(name="python")))
key = AuthenticatedClient(base_url=url, token=made_key.key, prefix="", auth_header_name="X-Service-Key")

webhook_request = WebhookRequest(url=receiver, events=["delivered"])
webhook = right(NewWebhookAnswer, create_webhook.sync(client=session, body=webhook_request, project="billing"))
patch = WebhookPatch(description="generated")
right(WebhookDetailAnswer, update_webhook.sync(webhook.id, client=session, body=patch, project="billing"))

event = Event(type_="delivered", message_id="m-python")
print("accepted", right(EventsAnswer, send_events.sync(client=key, body=event)).accepted)


def search() -> DeliveryAnswer:
    """Find the delivery by the message id."""
    return right(DeliveriesAnswer, search_deliveries.sync(client=key, message_id="m-python")).data[0]


delivery = eventually(search, lambda answer: answer.status.value == "delivered")
print("status", right(DetailedDelivery, get_delivery.sync(delivery.id, client=key)).attempts[0].status_code)
right(DeliveryRetryAnswer, retry_delivery.sync(delivery.id, client=key))
eventually(search, lambda answer: len(answer.attempts) == 2)

rotated = right(SecretAnswer, rotate_webhook_secret.sync(webhook.id, client=session, project="billing"))
print("rotated", str(rotated.secret != webhook.secret).lower())
span = ReplayRequest(since="2020-01-01T00:00:00Z", state=ReplayRequestState.DELIVERED)
replay = right(str, right(BegunReplayAnswer, begin_replay.sync(webhook.id, client=session, body=span)).id)
ended = eventually(
    lambda: right(ReplayAnswer, get_replay.sync(webhook.id, replay, client=session)),
    lambda answer: answer.status.value == "completed",
)
print("replayed", ended.done)
eventually(search, lambda answer: len(answer.attempts) == 3)
assert delete_webhook.sync_detailed(webhook.id, client=session, project="billing").status_code == 204
print("deleted")
