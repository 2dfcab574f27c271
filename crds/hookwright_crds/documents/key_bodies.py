"""Pure: the bodies of API keys."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

from hookwright_crds.base import Timestamp
from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Request, printable
from hookwright_crds.keys import KeyScope, Scopes


class KeyRequest(Request):
    """A key to create."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "CI sender"}})
    most_values = 20

    name: Annotated[
        str, Field(min_length=1, max_length=253, description="A name for people."), AfterValidator(printable)
    ]
    expires_at: Timestamp | None = Field(default=None, description="When it expires; if omitted, never.")
    scopes: Scopes = Field(
        default=None,
        min_length=1,
        max_length=len(KeyScope),
        description="Its rights, each once; if omitted, all. send: events and tests. read: every GET. manage: create, "
        "change and delete webhooks, retry and replay deliveries. pull: take and acknowledge messages.",
        examples=[["send"]],
    )


class NewKeyAnswer(Answer):
    """A new key."""

    id: str = Field(examples=["k7q2m9x0a3b5"])
    name: str = Field(examples=["CI sender"])
    key: str = Field(
        description="The key itself: only in this answer, and stored nowhere.", examples=["hw_k7q2m9x0a3b5_…"]
    )
    scopes: list[KeyScope] = Field(examples=[["send"]])
    created_at: str = Field(examples=[TIME_EXAMPLE])


class KeyAnswer(Answer):
    """A key in the form of lists."""

    id: str = Field(examples=["k7q2m9x0a3b5"])
    name: str = Field(examples=["CI sender"])
    scopes: list[KeyScope] = Field(examples=[["send"]])
    created_at: str = Field(examples=[TIME_EXAMPLE])
    last_used_at: str | None = Field(description="Updated about once an hour.", examples=[TIME_EXAMPLE])
    expires_at: str | None = Field(examples=[None])


class KeysAnswer(Answer):
    """The keys of a project."""

    data: list[KeyAnswer]
