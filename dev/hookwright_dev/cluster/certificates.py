"""Authority of one control plane: short-lived ECDSA P-256 certificates, created in a few milliseconds."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)


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


@dataclass(frozen=True)
class Authority:
    """A certificate authority that both servers and clients of one control plane trust."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    now: datetime

    @classmethod
    def create(cls, now: datetime) -> Self:
        """Create an authority whose certificates are valid from an hour before ``now`` (aware) for a year."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("hookwright-dev")
        certificate = (
            _builder(name, name, key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(certificates=True), critical=True)
            .sign(key, SHA256())
        )
        return cls(certificate, key, now)

    @property
    def pem(self) -> bytes:
        """Certificate of the authority."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, common_name: str, *, group: str | None = None, hosts: Sequence[str] = ()) -> KeyPair:
        """Issue a certificate for serving at ``hosts`` (names and addresses) and for acting as ``common_name``.

        ``group`` is the Kubernetes group of the client, the certificate's organization.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            _builder(_name(common_name, group), self.certificate.subject, key.public_key(), self.now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(map(_host, hosts)), critical=False)
        return KeyPair(_private_pem(key), builder.sign(self.key, SHA256()).public_bytes(Encoding.PEM))


def service_account_key() -> KeyPair:
    """Create the key pair that signs ServiceAccount tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    return KeyPair(_private_pem(key), key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, group: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if group is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
