"""Pure: the words that people read instead of statuses, reasons and codes."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from hookwright_api.view.table_records import EndpointRecord
from hookwright_crds.conditions import Condition


class StatusWord(NamedTuple):
    """A status for people.

    Attributes:
        title: one or two words.
        tone: ``good``, ``bad``, ``warn`` or ``quiet``; the style sheet has a colour and a shape for each.
        sentence: what the status means.
    """

    title: str
    tone: str
    sentence: str


ENDPOINT_STATUSES: Final = {
    "active": StatusWord("Active", "good", "Deliveries are sent, and the last attempt succeeded."),
    "failing": StatusWord("Failing", "bad", "The last attempt got no 2xx answer. Failed attempts are retried."),
    "error": StatusWord("Not ready", "bad", "Not every delivery can be sent until the cause is removed."),
    "suspended": StatusWord("Suspended", "quiet", "Deliveries stay pending until the endpoint is resumed."),
    "pending": StatusWord("Being set up", "warn", "The operator has not set up the endpoint yet."),
}
"""By the status of ``/v1``."""
_PULLED_ENDPOINTS: Final = {
    "active": "Messages wait until a consumer takes them.",
    "failing": "The last message was refused, or its lease ended. It is due again by the retry schedule.",
    "error": "No message can be taken until the cause is removed.",
    "suspended": "Consumers get no message until you resume the endpoint.",
}
"""The sentences of endpoints whose messages consumers take."""

DELIVERY_STATES: Final = {
    "pending": StatusWord("Pending", "warn", "An attempt follows."),
    "delivered": StatusWord("Delivered", "good", "The receiver answered with 2xx."),
    "failed": StatusWord("Failed", "bad", "No attempt follows. You can send it again."),
    "discarded": StatusWord("Discarded", "quiet", "The endpoint was deleted or expired before the delivery succeeded."),
}
"""By the state of a delivery."""
_PULLED_DELIVERIES: Final = {
    "pending": "It waits for a consumer, or a consumer has it.",
    "delivered": "A consumer acknowledged it.",
    "failed": "No consumer gets it any more. You can send it again.",
}
"""The sentences of messages that consumers take."""
PENDING_TITLE: Final = "Pending or retrying"
"""The title of pending deliveries, tried or not, where one word stands for both."""
_RETRYING: Final = StatusWord("Retrying", "warn", "The last attempt failed. Another one follows.")

CONDITIONS: Final = {
    "Ready": ("Set up", "Not set up", "False"),
    "Reachable": ("Receiver answers", "Receiver does not answer as it should", "False"),
    "Stalled": ("Needs a change", "Needs no change", "True"),
    "Reconciling": ("Being set up", "Setup is complete", "True"),
}
"""By condition type, the words for the statuses True and False, and the status that needs attention."""
_PULLED_CONDITIONS: Final = {
    "Reachable": ("Consumers acknowledge", "The last message was not acknowledged", "False"),
}
_UNKNOWN: Final = {"Reachable": "Not tried yet"}
"""The words for the status Unknown."""

ADVICE: Final = {
    400: "Reload the page, and repeat it.",
    403: "Ask an administrator of your organization if you need this.",
    404: "It may have been deleted. Go back to the list.",
    409: "Reload the page to see the present state.",
    412: "Reload the page to see the present state, and repeat your change.",
    422: "Correct the fields, and send the form again.",
    429: "Wait a moment, then reload the page.",
    500: "If it happens again, tell your administrator the request id below.",
    503: "Your data is safe. Wait a moment, then reload the page.",
}
"""What a person can do after a refusal, by its status."""
MOST_COUNTED: Final = 10_000
"""Messages of each kind that ``/v1`` counts at most."""


def conditions_of(record: EndpointRecord) -> list[tuple[Condition, str, str]]:
    """Return each condition of an endpoint with its title and its tone, those that need attention first."""
    titles = CONDITIONS | (_PULLED_CONDITIONS if record.endpoint.spec.pull else {})
    words = []
    for condition in record.endpoint.status.conditions:
        kind, status = condition.type, condition.status
        when_true, when_false, bad_status = titles.get(kind, (kind, f"not {kind}", ""))
        unknown = _UNKNOWN.get(kind, f"{kind} is not known yet")
        tone = "quiet" if status == "Unknown" else "bad" if status == bad_status else "good"
        words.append((condition, {"True": when_true, "False": when_false}.get(status, unknown), tone))
    return sorted(words, key=lambda word: word[2] != "bad")


def endpoint_word(record: EndpointRecord) -> StatusWord:
    """Return the words for the status of an endpoint."""
    word, deliveries = ENDPOINT_STATUSES[record.status], record.endpoint.status.deliveries
    if record.endpoint.spec.pull:
        return word._replace(sentence=_PULLED_ENDPOINTS.get(record.status, word.sentence))
    if record.status == "active" and (deliveries is None or deliveries.last_attempt_time is None):
        return word._replace(sentence="The endpoint is set up, and not tried yet.")
    return word


def pending_title(status: str) -> str:
    """Return the title of an endpoint's pending deliveries; at a failing endpoint they wait for a retry."""
    return "Retrying" if status == "failing" else "Pending"


def has_failed(attempt: Mapping[str, Any]) -> bool:
    """Return whether an attempt of ``/v1`` was no success."""
    return (attempt["statusCode"] or 0) // 100 != 2


def delivery_word(delivery: Mapping[str, Any], *, is_pulled: bool = False) -> StatusWord:
    """Return the words for the state of a delivery of ``/v1``; after a failed attempt, a pending one waits for a retry.

    Args:
        delivery: as ``/v1`` returns it.
        is_pulled: it is a message that consumers take.
    """
    state, attempts = delivery["status"], delivery["attempts"]
    word = DELIVERY_STATES.get(state, StatusWord(state, "quiet", ""))
    if state == "pending" and attempts and has_failed(attempts[-1]):
        word = _RETRYING
    return word._replace(sentence=_PULLED_DELIVERIES.get(state, word.sentence)) if is_pulled else word


def utc(moment: datetime | str) -> datetime:
    """Return a moment, or one that ``/v1`` has written, in UTC."""
    return (datetime.fromisoformat(moment) if isinstance(moment, str) else moment).astimezone(UTC)


def shown_number(number: float) -> str:
    """Return a number with separators, such as 12,345."""
    return f"{number:,}"


def up_to_count(number: int) -> str:
    """Return a number that ``/v1`` counts up to `MOST_COUNTED`."""
    return f"{number:,}" if number < MOST_COUNTED else f"{MOST_COUNTED:,} or more"


def age_between(begin: datetime | str, now: datetime) -> str:
    """Return how long something lasts, in its largest unit, such as 4 min."""
    seconds = max(0, int((now - utc(begin)).total_seconds()))
    for unit, length in (("days", 2 * 86_400), ("h", 2 * 3600), ("min", 2 * 60)):
        if seconds >= length:
            return f"{seconds // (length // 2)} {unit}"
    return f"{seconds} s"


def json_text(value: Any) -> str:
    """Return a JSON value on lines."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def percent(part: int, whole: int) -> str:
    """Return a share, such as 99.8%; never 100% if something is missing."""
    if not whole:
        return "none"
    share = 100 * part / whole
    return f"{min(share, 99.9) if part < whole else 100:.1f}%".replace(".0%", "%")


def sentence_of(detail: str) -> str:
    """Return a message of ``/v1`` with a capital letter and a full stop."""
    text = f"{detail[:1].upper()}{detail[1:]}"
    return text if text.endswith((".", "!", "?")) else f"{text}."
