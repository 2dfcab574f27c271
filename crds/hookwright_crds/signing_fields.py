"""Pure: the signing secret of an endpoint, and its rotation."""

from pydantic import Field, StrictInt

from hookwright_crds.base import Model, ObjectName
from hookwright_crds.credential_fields import SecretField
from hookwright_crds.endpoint_fields import Overlap
from hookwright_crds.signing_secrets import Encoding


class SecretRef(Model):
    """A field of a Secret that the tenant makes, in the endpoint's namespace."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: SecretField = Field(
        default="secret",
        description="Field of the Secret. It has a signing secret (whsec_ and base64 of 24 to 64 bytes), or up to "
        "four, separated by spaces: all of them sign webhook-signature, and the first one signs X-Service-Signature.",
    )
    encoding: Encoding = Field(
        default="whsec",
        description="raw: each line is the secret of another sender, 1 to 512 printable characters. The Secret needs "
        'the label hookwright.dev/signing-secret: "true".',
    )


class Signing(Model):
    """The signing secret, and its rotation."""

    rotation: StrictInt = Field(
        default=0,
        description="Increase it to generate a new signing secret; the old secret also signs during the overlap. "
        "It cannot be decreased.",
        ge=0,
        le=1_000_000,
    )
    overlap: Overlap = "24h"
    secret_ref: SecretRef | None = Field(
        default=None,
        description="Sign with a Secret that you make, for example with external-secrets; the operator then makes "
        "none. A change of the Secret is used within a minute.",
    )

    @property
    def encoding(self) -> Encoding:
        """The form of the signing secrets."""
        return self.secret_ref.encoding if self.secret_ref is not None else "whsec"
