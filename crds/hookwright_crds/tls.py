"""Pure: whom the requests to an endpoint trust, and the certificate that they present."""

from typing import Annotated, Final

from pydantic import Field

from hookwright_crds.base import Model, ObjectName, at_most
from hookwright_crds.credential_fields import OfferedSecretRef

MAX_AUTHORITIES: Final = 4
HTTPS_PATTERN: Final = "^[hH][tT][tT][pP][sS]:"
TLS_SENTENCE: Final = "tls needs a url that begins with https:"


class CaCertificateRef(Model):
    """A ConfigMap that the tenant makes, in the endpoint's namespace, and offers for deliveries."""

    name: ObjectName = Field(
        description="Name of the ConfigMap, with the label hookwright.dev/delivery-credential: "
        '"true". Its field ca.crt has certificates in PEM, up to 16 KiB.'
    )


class Tls(Model):
    """Whom the requests trust, and the certificate that they present."""

    ca_certificate_refs: Annotated[tuple[CaCertificateRef, ...], at_most(MAX_AUTHORITIES)] = Field(
        default_factory=tuple,
        description="ConfigMaps with the certificate authorities of the receiver: at most 4. They replace those of the "
        "system.",
        max_length=MAX_AUTHORITIES,
    )
    client_certificate_ref: OfferedSecretRef | None = Field(
        default=None,
        description="A Secret of type kubernetes.io/tls with the client certificate, as cert-manager makes it. A "
        "renewed one is used at once.",
    )

    @property
    def references(self) -> tuple[CaCertificateRef | OfferedSecretRef, ...]:
        """All references, to ConfigMaps and to the Secret."""
        pair = self.client_certificate_ref
        return (*self.ca_certificate_refs, *((pair,) if pair is not None else ()))
