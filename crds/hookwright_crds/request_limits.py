"""Pure: limits of requests that the API and the operator's intake must agree on.

The API checks a request before it sends it to the intake, which checks it again.
"""

from typing import Final

EVENTS_BODY_LIMIT: Final = 1024 * 1024
"""Most bytes of the body of a request with events."""
MAX_VALUES: Final = 100_000
"""Most JSON values of all events of a request; to parse as many numbers takes about 0.2 s."""
MAX_EVENT_VALUES: Final = 20_000
"""Most JSON values of one event, which is decoded without a pause for other requests."""

MAX_LIMIT: Final = 250
"""Most deliveries on one page of the delivery log."""
DEFAULT_LIMIT: Final = 50
"""Deliveries on one page of the delivery log, if a request names no number."""

MAX_MESSAGES: Final = 1000
"""Most messages that one request takes or settles."""
MAX_SETTLEMENT_VALUES: Final = MAX_MESSAGES + 100
"""Most JSON values of a request that settles messages."""
DEFAULT_MESSAGES: Final = 100
"""Most messages that a request takes if it names no number."""
WAIT_BOUNDS: Final = ("0s", "30s")
"""Shortest and longest wait of a request for messages, as durations."""
DELAY_BOUNDS: Final = ("0s", "24h")
"""Shortest and longest delay until a refused message is due again, as durations."""
LONGEST_REASON: Final = 500
"""Most characters of the reason why a consumer refuses messages."""
