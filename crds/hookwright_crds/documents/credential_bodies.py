"""Pure: the credentials in requests of `/v1`. Each value goes into a Secret of the endpoint, and the spec names it."""

import hashlib
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from hookwright_crds.base import ObjectName, at_most, name_of_child
from hookwright_crds.credential_fields import MAX_CREDENTIAL_LENGTH, OAuth2, SecretHeader
from hookwright_crds.derived_models import patch_of, request_of
from hookwright_crds.documents.forms import Request
from hookwright_crds.endpoint_fields import HEADER_VALUE_PATTERN
from hookwright_crds.resources import CREDENTIAL_FIELDS, MAX_SECRET_HEADERS

VALUE_FIELD: Final = "value"
"""The field of such a Secret, except of one with a client certificate."""
GIVEN_FIELDS: Final = (*CREDENTIAL_FIELDS, "tls")
"""The fields of requests that have such values."""
MAX_CREDENTIALS: Final = 2 * (MAX_SECRET_HEADERS + 3)
"""Most Secrets and ConfigMaps that one change deletes or creates."""
CONFIG_MAP: Final = "ConfigMap"
_PEM_LENGTH: Final = 8000
"""A certificate with its key, in base64, fits into `trimming.CREDENTIAL_BYTES`; so do two such lengths of text."""

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


def _in_pem(text: str) -> str:
    if "-----BEGIN " not in text:
        raise ValueError("must be PEM, which begins with -----BEGIN")
    return text


_PEM: Final[dict[str, Any]] = {"format": "pem", "writeOnly": True}
Pem = Annotated[str, AfterValidator(_in_pem)]


def credential_secret_name(endpoint: str, field: str, version: str) -> str:
    """Return the name of the Secret with a credential of an endpoint.

    Args:
        endpoint: its name.
        field: of the document, such as ``oauth2``, or ``secret_headers.`` and the name of a header, which can have
            characters that no Secret's name has.
        version: the same for all values of a request; each one has Secrets of its own, so the write of the spec alone
            decides which value is sent where.
    """
    digest = hashlib.sha256(f"{field} {version}".encode()).hexdigest()[:12]
    return name_of_child(endpoint, f"-credential-{digest}")


def is_secret_name(endpoint: str, name: str) -> bool:
    """Return whether a name can be that of such a Secret of the endpoint; other endpoints have other names."""
    return name[:-12] == credential_secret_name(endpoint, "", "")[:-12]


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


class TlsRequest(Request):
    """Whom the requests trust, and the certificate that they present; in a change, absent fields stay."""

    ca_certificates: Annotated[Pem, Field(max_length=2 * _PEM_LENGTH)] | None = Field(
        default=None,
        description="Authorities of the receiver in PEM, in place of the system's.",
        json_schema_extra=_PEM,
    )
    client_certificate: Annotated[Pem, Field(max_length=_PEM_LENGTH)] | None = Field(
        default=None, description="Client certificate in PEM.", json_schema_extra=_PEM
    )
    client_key: Annotated[Pem, Field(max_length=_PEM_LENGTH // 2)] | None = Field(
        default=None, repr=False, description="Its key in PEM, which is not shown.", json_schema_extra=_PEM
    )

    @model_validator(mode="after")
    def _is_pair(self) -> Self:
        if (self.client_certificate is None) != (self.client_key is None):
            raise ValueError("client_certificate and client_key need each other; give both, or null for both")
        return self


class CredentialObject(Request):
    """A Secret or ConfigMap with a credential of an endpoint."""

    type: Literal["Opaque", "kubernetes.io/tls", "ConfigMap"]
    fields: dict[str, str] = Field(repr=False)
    hosts: tuple[str, ...] = Field(description="The hosts of the URLs for which the caller gave the value.")


class CredentialsChange(Request):
    """What the API asks of the operator, before and after it writes an endpoint: new objects, and those to delete."""

    most_values = 200

    uid: str = Field(description="Of the endpoint, which owns the objects.")
    created: Annotated[dict[ObjectName, CredentialObject], at_most(MAX_CREDENTIALS)] = Field(default={})
    removed: Annotated[tuple[ObjectName, ...], at_most(MAX_CREDENTIALS)] = ()
