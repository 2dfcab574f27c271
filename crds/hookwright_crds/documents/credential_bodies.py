"""Pure: the credentials in requests of `/v1`. Each value goes into a Secret of the endpoint, and the spec names it."""

import hashlib
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from hookwright_crds.base import ObjectName, at_most, name_of_child
from hookwright_crds.credential_fields import MAX_CREDENTIAL_LENGTH, OAuth2, SecretHeader
from hookwright_crds.derived_models import patch_of, request_of
from hookwright_crds.documents.forms import Request
from hookwright_crds.endpoint_fields import HEADER_VALUE_PATTERN
from hookwright_crds.resources import MAX_SECRET_HEADERS

VALUE_FIELD: Final = "value"
"""The field of such a Secret."""
MAX_CREDENTIALS: Final = 2 * (MAX_SECRET_HEADERS + 1)
"""Most Secrets that one change deletes or creates."""

Value = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=MAX_CREDENTIAL_LENGTH, pattern=HEADER_VALUE_PATTERN
    ),
    Field(
        description="1 to 4,096 printable characters, which are not shown.",
        json_schema_extra={"format": "password", "writeOnly": True},
    ),
]


def credential_secret_name(endpoint: str, field: str, version: str) -> str:
    """Return the name of the Secret with a credential of an endpoint.

    Args:
        endpoint: its name.
        field: ``oauth2``, or the name of a header, which can have characters that no Secret's name has.
        version: the same for all values of a request; each one has Secrets of its own, so the write of the spec alone
            decides which value is sent where.
    """
    digest = hashlib.sha256(f"{field} {version}".encode()).hexdigest()[:12]
    return name_of_child(endpoint, f"-credential-{digest}")


_SecretHeaderFields: Any = request_of(SecretHeader, Request, without=("name", "secret_key_ref"))
_SecretHeaderPatchFields: Any = patch_of(SecretHeader, Request, without=("name", "secret_key_ref"))
_OAuth2Fields: Any = request_of(OAuth2, Request, without=("client_secret_ref",))
_OAuth2PatchFields: Any = patch_of(OAuth2, Request, without=("client_secret_ref",))


class SecretHeaderRequest(_SecretHeaderFields):  # type: ignore[misc]
    """A header whose value goes into a Secret."""

    value: Value = Field(repr=False)


class SecretHeaderPatch(_SecretHeaderPatchFields):  # type: ignore[misc]
    """A change of such a header."""

    value: Value | None = Field(default=None, repr=False)


class OAuth2Request(_OAuth2Fields):  # type: ignore[misc]
    """The client credentials for which a token server gives access tokens; the client's secret goes into a Secret."""

    client_secret: Value = Field(repr=False)


class OAuth2Patch(_OAuth2PatchFields):  # type: ignore[misc]
    """A change of them."""

    client_secret: Value | None = Field(default=None, repr=False)


class CredentialSecret(Request):
    """A Secret with a credential of an endpoint."""

    value: Value = Field(repr=False)
    hosts: tuple[str, ...] = Field(description="The hosts of the URLs for which the caller gave the value.")


class CredentialsChange(Request):
    """What the API asks of the operator, before and after it writes an endpoint: new Secrets, and those to delete."""

    most_values = 100

    uid: str = Field(description="Of the endpoint, which owns the Secrets.")
    created: Annotated[dict[ObjectName, CredentialSecret], at_most(MAX_CREDENTIALS)] = Field(default={})
    removed: Annotated[tuple[ObjectName, ...], at_most(MAX_CREDENTIALS)] = ()
