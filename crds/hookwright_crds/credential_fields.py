"""Pure: the fields of an endpoint whose values are in Secrets that its tenant offers for deliveries."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from hookwright_crds.base import Model, ObjectName, at_most
from hookwright_crds.endpoint_fields import MAX_ENTRIES, HeaderName, HeaderValue
from hookwright_crds.urls import MAX_URL_LENGTH, check_url

FIELD_NAME_PATTERN: Final = r"^[-._a-zA-Z0-9]+$"
GRANT_PARAMS: Final = ("client_id", "client_secret", "grant_type", "scope")
"""Parameters of a token request that Hookwright sets (RFC 6749, sections 2.3.1 and 4.4.2)."""
GRANT_PARAMS_SENTENCE: Final = f"endpointParams must not set {', '.join(GRANT_PARAMS)}, which Hookwright sets"
MAX_CREDENTIAL_LENGTH: Final = 4096
PRINTABLE_PATTERN: Final = r"^[\x20-\x7e]+$"
WORD_PATTERN: Final = r"^[\x21-\x7e]{1,256}$"

SecretField = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=FIELD_NAME_PATTERN)]
"""The name of a field of a Secret."""


class OfferedSecretRef(Model):
    """A Secret that the tenant makes, in the endpoint's namespace, and offers for deliveries."""

    name: ObjectName = Field(
        description='Name of the Secret, with the label hookwright.dev/delivery-credential: "true", and the annotation '
        "hookwright.dev/hosts: the hosts that may get it, such as api.example.com, *.example.org.",
    )


class CredentialRef(OfferedSecretRef):
    """A field of a Secret that the tenant makes, in the endpoint's namespace, and offers for deliveries."""

    key: SecretField = Field(
        description="Field of the Secret: 1 to 4,096 printable characters. White space at both ends is removed."
    )


class SecretHeader(Model):
    """A header whose value is in a Secret."""

    name: Annotated[HeaderName, Field(max_length=256)] = Field(
        description="Name of the header, such as Authorization. No other header may have it, in any case."
    )
    prefix: Annotated[HeaderValue, Field(max_length=64)] = Field(
        default="", description='Text before the value, such as "Bearer " with its space.'
    )
    secret_key_ref: CredentialRef = Field(description="The field of a Secret that has the value.")


def _not_of_the_grant(params: dict[str, str]) -> dict[str, str]:
    if not params.keys().isdisjoint(GRANT_PARAMS):
        raise ValueError(GRANT_PARAMS_SENTENCE)
    return params


Printable = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=PRINTABLE_PATTERN)]
Word = Annotated[str, StringConstraints(pattern=WORD_PATTERN)]


class OAuth2(Model):
    """The client credentials for which a token server gives access tokens (RFC 6749, section 4.4)."""

    client_id: Printable = Field(description="The client, such as hookwright-billing.")
    client_secret_ref: CredentialRef = Field(
        description="The field of a Secret that has the client's secret; url and tokenUrl must be at hosts of its "
        "annotation."
    )
    token_url: Annotated[str, AfterValidator(check_url)] = Field(
        description="URL of the token server, such as https://auth.example.com/oauth2/token.",
        min_length=1,
        max_length=MAX_URL_LENGTH,
    )
    scopes: Annotated[tuple[Annotated[Word, Field(max_length=256)], ...], at_most(MAX_ENTRIES)] = Field(
        default_factory=tuple,
        description="Scopes of the token, such as events:write: at most 20.",
        max_length=MAX_ENTRIES,
    )
    endpoint_params: Annotated[dict[Word, Printable], at_most(MAX_ENTRIES), AfterValidator(_not_of_the_grant)] = Field(
        default_factory=dict,
        description="Further parameters of a token request, such as {audience: https://api.example.com}: at most 20, "
        "none a secret.",
        max_length=MAX_ENTRIES,
    )
