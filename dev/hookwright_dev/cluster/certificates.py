"""Authority of one control plane, by trustme: ECDSA P-256 certificates, created in a few milliseconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from trustme import CA


@dataclass(frozen=True)
class KeyPair:
    """A private key and its public part, both PEM: a certificate, or a bare public key."""

    key: bytes = field(repr=False)
    public: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write ``name.crt`` and ``name.key`` (readable only by the owner) and return their paths in that order."""
        public, key = folder / f"{name}.crt", folder / f"{name}.key"
        public.write_bytes(self.public)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return public, key


class Authority:
    """A new certificate authority that both servers and clients of one control plane trust."""

    def __init__(self) -> None:
        self._ca = CA()

    @property
    def pem(self) -> bytes:
        """Certificate of the authority."""
        return self._ca.cert_pem.bytes()

    def issue(
        self, common_name: str, *, group: str | None = None, hosts: Sequence[str] = (), ends_at: datetime | None = None
    ) -> KeyPair:
        """Issue a certificate for serving at ``hosts`` (names and addresses) and for acting as ``common_name``.

        ``group`` is the Kubernetes group of the client, the certificate's organization. It is valid until ``ends_at``,
        by default for years.
        """
        # Go refuses a certificate whose list of names is empty.
        names = hosts or [common_name]
        leaf = self._ca.issue_cert(*names, common_name=common_name, organization_name=group, not_after=ends_at)
        return KeyPair(leaf.private_key_pem.bytes(), leaf.cert_chain_pems[0].bytes())


def service_account_key() -> KeyPair:
    """Create the key pair that signs ServiceAccount tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return KeyPair(private, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
