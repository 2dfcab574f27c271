"""Pure: the bodies of projects."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from hookwright_crds.base import ObjectName
from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Request, printable


class ProjectRequest(Request):
    """A project to create."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "billing", "display_name": "Billing"}})

    name: Annotated[
        ObjectName,
        Field(
            description="The name in URLs and in the cluster: lower-case letters, digits, '-' and '.', with a letter "
            "or digit at the start and end and around each '.'.",
        ),
    ]
    display_name: Annotated[str, Field(min_length=1, max_length=253), AfterValidator(printable)] | None = Field(
        default=None, description="A name for people; if omitted, none."
    )


class DeliveryLogAnswer(Answer):
    """What the delivery log of a project shows; the Project declares it in `spec.deliveryLog`."""

    payloads: Literal["keep", "omit"] = Field(
        description="keep: the log shows the bodies of events and the beginnings of receivers' answers. omit: it shows "
        "neither."
    )
    missed_events: Literal["discard", "keep"] = Field(
        description="keep: events without a subscriber are stored, so that a replay can send them to a later webhook."
    )


class ProjectDetailAnswer(Answer):
    """A project."""

    name: str = Field(examples=["billing"])
    uid: str = Field(examples=["0b9e7c1a-54b1-4d0e-9a51-2f5d3c1d8e70"])
    display_name: str = Field(examples=["Billing"])
    declared_by: str | None = Field(
        description="The tool that manages a declared project, or YAML if it has no label of a tool; null if /v1 "
        "created the project. /v1 cannot delete a declared project.",
        examples=[None],
    )
    webhooks: int = Field(description="How many webhooks it has.", examples=[2])
    keys: int = Field(description="How many keys it has.", examples=[1])
    delivery_log: DeliveryLogAnswer
    created_at: str = Field(examples=[TIME_EXAMPLE])


class ProjectsAnswer(Answer):
    """The projects that the credential may see."""

    data: list[ProjectDetailAnswer]


class DeletedProjectAnswer(Answer):
    """What was deleted with a project."""

    name: str = Field(examples=["billing"])
    webhooks: int = Field(description="Webhooks that /v1 created: they are deleted.", examples=[2])
    keys: int = Field(description="Keys that /v1 created: they are revoked.", examples=[1])
    declared: int = Field(
        description="Declared webhooks and keys: they remain in the cluster, and are not ready without the project.",
        examples=[0],
    )
    pending_deliveries: int = Field(
        description="Pending deliveries of the deleted webhooks, as their last status counts them: they are discarded.",
        examples=[17],
    )
