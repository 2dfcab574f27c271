"""Pure: the bodies of replays."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, model_validator

from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Moment, Request, check_order
from hookwright_crds.events import MAX_SUBSCRIPTIONS, MAX_TYPE_LENGTH, delivered_type

REPLAY_EXAMPLE = "rec_01JK3V9Q4D1X7N0T5C8B2M6EYC"

TypeName = Annotated[str, Field(max_length=2 * MAX_TYPE_LENGTH), AfterValidator(delivered_type)]
ReplayedState = Literal["failed", "delivered", "all", "missed"]


class ReplayRequest(Request):
    """The deliveries to send again."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"since": TIME_EXAMPLE, "state": "all", "types": ["delivered"]}}
    )
    most_values = MAX_SUBSCRIPTIONS + 20

    since: Moment = Field(
        description="The time of acceptance from which on deliveries are sent again (RFC 3339, with its zone).",
        examples=[TIME_EXAMPLE],
    )
    until: Moment | None = Field(
        default=None,
        description="The time of acceptance up to which deliveries are sent again; by default, and at most, now.",
        examples=[TIME_EXAMPLE],
    )
    state: ReplayedState = Field(
        default="failed",
        description="Send again deliveries that failed, that were delivered, or all of both; or send events that the "
        "webhook missed, because it did not exist or did not subscribe to them.",
    )
    types: list[TypeName] = Field(
        default=[], max_length=MAX_SUBSCRIPTIONS, description="Only deliveries of these event types; empty: of all."
    )
    dry_run: StrictBool = Field(
        default=False, description="Only count the deliveries: the answer is 200, and nothing is sent."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        check_order(self.since, self.until)
        return self


class ChosenAnswer(Answer):
    """The deliveries of a replay."""

    since: str = Field(examples=[TIME_EXAMPLE])
    until: str = Field(examples=[TIME_EXAMPLE])
    state: ReplayedState
    types: list[str] = Field(description="Empty: all types.", examples=[["delivered"]])
    total: int = Field(description="How many deliveries there were at the beginning.", examples=[1200])
    total_is_exact: bool = Field(description="false: there were at least `total` deliveries; counting all is too long.")


class BegunReplayAnswer(ChosenAnswer):
    """A replay that has begun, or what a replay would send now.

    Generators of clients give an operation the type of one answer, so both answers have one schema.
    """

    dry_run: bool | None = Field(default=None, description="true: nothing was begun, and there are no fields below.")
    id: str | None = Field(default=None, examples=[REPLAY_EXAMPLE])
    status: Literal["running"] | None = None
    done: int | None = Field(default=None, examples=[0])
    begun_at: str | None = Field(default=None, examples=[TIME_EXAMPLE])
    ended_at: str | None = Field(default=None, description="null while the replay is running.")


class ReplayAnswer(ChosenAnswer):
    """A replay with its progress."""

    id: str = Field(examples=[REPLAY_EXAMPLE])
    status: Literal["running", "completed", "cancelled"]
    done: int = Field(description="How many deliveries became pending again.", examples=[400])
    begun_at: str = Field(examples=[TIME_EXAMPLE])
    ended_at: str | None = Field(description="null while the replay is running.", examples=[TIME_EXAMPLE])


class ReplaysAnswer(Answer):
    """The latest 50 replays of an endpoint, the newest first."""

    data: list[ReplayAnswer]
