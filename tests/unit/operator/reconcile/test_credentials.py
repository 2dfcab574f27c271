"""The verdicts about credentials: an endpoint sends all of them to an allowed host, or it sends nothing."""

import base64
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from support.reconcile_scenes import NOW, EndpointScene, in_words, status_of, steady_endpoint, without_status

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION
from hookwright_crds.resources import WebhookEndpointSpec
from hookwright_dev.cluster.certificates import Authority
from hookwright_operator.registry import OAuth2Client, SecretValue
from hookwright_operator.watch.objects import Secret

TOKEN = "t0ken-of-the-receiver"
HEADER = {"name": "Authorization", "prefix": "Bearer ", "secretKeyRef": {"name": "api", "key": "token"}}

OAUTH2 = {
    "clientId": "billing",
    "clientSecretRef": {"name": "api", "key": "token"},
    "tokenUrl": "https://auth.example.org/token",
    "scopes": ["a", "b"],
    "endpointParams": {"audience": "x"},
}


def credential(hosts: str = "example.com", **fields: str) -> Secret:
    """Return a Secret that its tenant offers to hosts."""
    return Secret(
        "acme",
        "api",
        fields or {"token": TOKEN},
        uid="uid-api",
        labels={CREDENTIAL_LABEL: "true"},
        annotations={HOSTS_ANNOTATION: hosts},
    )


def scene(secret: Secret | None, url: str = "https://example.com/", headers: list[Any] | None = None) -> EndpointScene:
    """Return an endpoint without other faults, whose secret headers have this Secret."""
    steady = steady_endpoint(url=url, secretHeaders=headers or [HEADER])
    return without_status(replace(steady, credentials={"api": secret} if secret else {}))


def with_oauth2(secret: Secret | None, url: str = "https://auth.example.org/token") -> EndpointScene:
    """Return an endpoint without other faults, whose client secret is in this Secret; ``url`` gives tokens."""
    steady = steady_endpoint(url="https://example.com/", oauth2={**OAUTH2, "tokenUrl": url})
    return without_status(replace(steady, credentials={"api": secret} if secret else {}))


def registered(observed: EndpointScene) -> tuple[str, tuple[SecretValue, ...]]:
    """Return why the endpoint is blocked, and the values that it sends."""
    endpoint = observed.settled().registered
    assert endpoint is not None
    return endpoint.block_reason, endpoint.secret_headers


FAULTS: dict[str, tuple[EndpointScene, str]] = {
    "no Secret": (scene(None), "CredentialsNotFound"),
    "no such field": (scene(credential(other="x")), "CredentialsNotFound"),
    "an empty field": (scene(credential(token=" \n")), "CredentialsNotFound"),
    "a line break in the value": (scene(credential(token="a\r\nX-Evil: 1")), "CredentialsNotFound"),
    "a value that is too long": (scene(credential(token="x" * 4097)), "CredentialsNotFound"),
    "no annotation": (scene(replace(credential(), annotations={})), "CredentialsRefused"),
    "another host": (scene(credential("api.example.com, example.org")), "CredentialsRefused"),
    "a host that only ends alike": (scene(credential(), "https://evil-example.com/"), "CredentialsRefused"),
    "a host that only begins alike": (scene(credential(), "https://example.com.evil.net/"), "CredentialsRefused"),
    "the domain itself for a wildcard": (scene(credential("*.example.com")), "CredentialsRefused"),
    "a wildcard for everything": (scene(credential("*, *., ,")), "CredentialsRefused"),
    "the allowed host in the path": (scene(credential(), "https://evil.net/example.com"), "CredentialsRefused"),
    "the allowed host before an at sign": (scene(credential(), "https://evil.net/@example.com"), "CredentialsRefused"),
    "one of two is missing": (
        scene(credential(), headers=[HEADER, {"name": "X-Key", "secretKeyRef": {"name": "gone", "key": "k"}}]),
        "CredentialsNotFound",
    ),
    "no Secret of a client": (with_oauth2(None), "CredentialsNotFound"),
    "no such field of a client": (with_oauth2(credential("example.com, *.example.org", x="x")), "CredentialsNotFound"),
    "the token server is not among the hosts": (with_oauth2(credential()), "CredentialsRefused"),
    "the receiver is not among the hosts": (with_oauth2(credential("auth.example.org")), "CredentialsRefused"),
    "the token server is plain http": (
        with_oauth2(credential("example.com, *.example.org"), "http://auth.example.org/token"),
        "InsecureUrl",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_without_an_allowed_value_nothing_is_sent(fault: str) -> None:
    """The endpoint is blocked with the reason, has no value at all, and its status does not show one."""
    observed, reason = FAULTS[fault]
    assert registered(observed) == (reason, ())
    endpoint = observed.settled().registered
    assert endpoint is not None
    assert endpoint.oauth2 is None or reason == "InsecureUrl"
    status = str(status_of(observed.plan()))
    assert reason in status
    assert TOKEN not in status
    assert in_words(observed.plan())[0] == f"register: blocked by {reason}"


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("example.com", "https://example.com:8443/hooks"),
        (" EXAMPLE.com. ,other.net", "https://Example.COM./"),
        ("*.example.com", "https://a.b.example.com/"),
        ("192.0.2.7", "https://192.0.2.7/"),
    ],
)
def test_an_allowed_host_gets_the_value(hosts: str, url: str) -> None:
    """Names are compared without case and final dot; a wildcard has every host below the domain."""
    assert registered(scene(credential(hosts, token=f"{TOKEN}\n"), url)) == (
        "",
        (SecretValue("Authorization", "Bearer ", TOKEN),),
    )


def test_a_token_server_and_a_receiver_that_are_both_allowed_get_what_is_theirs() -> None:
    """The snapshot has what a request for a token needs, and no text form of it shows the secret."""
    endpoint = with_oauth2(credential("example.com, *.example.org")).settled().registered
    assert endpoint is not None
    form = (("grant_type", "client_credentials"), ("scope", "a b"), ("audience", "x"))
    assert endpoint.oauth2 == OAuth2Client("https://auth.example.org/token", "billing", TOKEN, form)
    assert (endpoint.block_reason, TOKEN in repr(endpoint)) == ("", False)


def test_a_fault_heals_when_the_secret_or_the_endpoint_changes() -> None:
    """Nothing of an earlier verdict stays, and no text form of the snapshot has the value."""
    for observed, _ in FAULTS.values():
        healed = replace(observed.settled(), endpoint=scene(None).endpoint, credentials={"api": credential()}).settled()
        assert healed.registered is not None
        assert (healed.registered.block_reason, len(healed.registered.secret_headers)) == ("", 1)
        assert TOKEN not in repr(healed.registered) + repr(healed.credentials)


@pytest.mark.parametrize(
    "spec",
    [
        {"headers": {"authorization": "x"}},
        {"secretHeaders": [HEADER, {**HEADER, "name": "AUTHORIZATION"}]},
        {"secretHeaders": [{**HEADER, "name": "Webhook-Signature"}]},
        {"secretHeaders": [{**HEADER, "name": "Ce-Id"}], "format": "cloudevents"},
        {"secretHeaders": [{**HEADER, "name": f"X-{number}"} for number in range(9)]},
        {"url": None, "pull": {}},
        {"oauth2": OAUTH2},
    ],
)
def test_a_header_has_one_value(spec: dict[str, Any]) -> None:
    """A name that another header or Hookwright sets, too many headers, and pull are refused as in the cluster."""
    manifest = {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]}
    WebhookEndpointSpec.model_validate({**manifest, "secretHeaders": [HEADER]})
    with pytest.raises(ValueError, match=r"secret_?[hH]eaders"):
        WebhookEndpointSpec.model_validate({**manifest, "secretHeaders": [HEADER], **spec})


@pytest.mark.parametrize(
    "spec",
    [
        {"headers": {"authorization": "x"}},
        {"url": None, "pull": {}},
        {"oauth2": {**OAUTH2, "endpointParams": {"client_secret": "x"}}},
        {"oauth2": {**OAUTH2, "endpointParams": {"a b": "x"}}},
        {"oauth2": {**OAUTH2, "scopes": ["a b"]}},
        {"oauth2": {**OAUTH2, "scopes": ["a"] * 21}},
        {"oauth2": {**OAUTH2, "clientId": "a\n"}},
        {"oauth2": {**OAUTH2, "tokenUrl": "https://user:password@auth.example.org/"}},
    ],
)
def test_a_request_for_a_token_has_one_form(spec: dict[str, Any]) -> None:
    """The models refuse what the cluster refuses."""
    manifest = {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]}
    WebhookEndpointSpec.model_validate({**manifest, "oauth2": OAUTH2})
    with pytest.raises(ValueError, match="oauth2"):
        WebhookEndpointSpec.model_validate({**manifest, "oauth2": OAUTH2, **spec})


AUTHORITY, OTHER = Authority(), Authority()
END = NOW + timedelta(days=364)
PAIR, SECOND = AUTHORITY.issue("first", ends_at=END), AUTHORITY.issue("second", ends_at=END)
TLS = {"caCertificateRefs": [{"name": "ca"}], "clientCertificateRef": {"name": "api"}}
CERTIFICATES = {"ca": f"# Société\n{AUTHORITY.pem.decode()}"}


def client_pair(certificate: bytes = PAIR.public, key: bytes = PAIR.key, hosts: str = "example.com") -> Secret:
    """Return a Secret with a client certificate and a key."""
    return credential(hosts, **{"tls.crt": certificate.decode(), "tls.key": key.decode()})


def rsa_pair(bits: int, *, has_long_exponent: bool = False) -> tuple[bytes, bytes]:
    """Return a certificate and its key; a long exponent makes each signature slow."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, END)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    numbers = key.private_numbers()
    p, q = numbers.p, numbers.q
    exponent = numbers.d + ((p - 1) * (q - 1) << 4096 if has_long_exponent else 0)
    integers = (0, p * q, 65537, exponent, p, q, numbers.dmp1, numbers.dmq1, numbers.iqmp)
    content = b"".join(_der(0x02, number.to_bytes(number.bit_length() // 8 + 1)) for number in integers)
    text = base64.encodebytes(_der(0x30, content))
    return certificate, b"-----BEGIN RSA PRIVATE KEY-----\n%b-----END RSA PRIVATE KEY-----\n" % text


def _der(tag: int, content: bytes) -> bytes:
    """Return a value in DER; the library does not write keys that it would refuse."""
    size = len(content)
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([128 + len(octets)]) + octets) + content


def tls_scene(secret: Secret | None, authorities: dict[str, str] | None = None, **tls: Any) -> EndpointScene:
    """Return an endpoint without other faults, whose `spec.tls` has this Secret and these ConfigMaps."""
    steady = steady_endpoint(url="https://example.com/", tls=TLS | tls)
    return without_status(
        replace(
            steady,
            credentials={"api": secret} if secret else {},
            authorities=CERTIFICATES if authorities is None else authorities,
        )
    )


def _encrypted(key: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )


TLS_FAULTS: dict[str, tuple[EndpointScene, str, str]] = {
    "no ConfigMap": (tls_scene(client_pair(), {}), "CredentialsNotFound", "create the ConfigMap 'ca'"),
    "no ca.crt": (tls_scene(client_pair(), {"ca": ""}), "CredentialsInvalid", "'ca.crt' of ConfigMap 'ca'"),
    "no PEM": (tls_scene(client_pair(), {"ca": "none"}), "CredentialsInvalid", "'ca.crt' of ConfigMap 'ca'"),
    "half a PEM": (
        tls_scene(client_pair(), {"ca": AUTHORITY.pem.decode()[:-200]}),
        "CredentialsInvalid",
        "'ca.crt' of ConfigMap 'ca'",
    ),
    "no Secret": (tls_scene(None), "CredentialsNotFound", "create the Secret 'api'"),
    "another host": (tls_scene(client_pair(hosts="example.org")), "CredentialsRefused", "may not go to 'example.com'"),
    "no key": (tls_scene(client_pair(key=b"")), "CredentialsNotFound", "fields tls.crt and tls.key"),
    "another key": (tls_scene(client_pair(key=SECOND.key)), "CredentialsInvalid", "is not the key of"),
    "a key in tls.crt": (tls_scene(client_pair(PAIR.public + PAIR.key)), "CredentialsInvalid", "belongs in tls.key"),
    "a large key": (tls_scene(client_pair(*rsa_pair(4104))), "CredentialsInvalid", "at most 4,096 bits"),
    "numbers that make signatures slow": (
        tls_scene(client_pair(*rsa_pair(2048, has_long_exponent=True))),
        "CredentialsInvalid",
        "do not fit",
    ),
    "a key with a password": (tls_scene(client_pair(key=_encrypted(PAIR.key))), "CredentialsInvalid", "password"),
    "a key that is too large": (
        tls_scene(client_pair(key=PAIR.key + b"\n" * 4096)),
        "CredentialsInvalid",
        "4,096 characters",
    ),
    "no certificate": (tls_scene(client_pair(b"none")), "CredentialsInvalid", "certificate in PEM"),
}


@pytest.mark.parametrize("fault", TLS_FAULTS)
def test_an_unfit_certificate_blocks_the_endpoint_until_it_is_corrected(fault: str) -> None:
    """No attempt is made, and the message says what is wrong, without a part of the key."""
    observed, reason, words = TLS_FAULTS[fault]
    blocked = observed.settled()
    assert blocked.registered is not None
    assert (blocked.registered.block_reason, blocked.registered.tls) == (reason, None)
    status = "".join(entry["message"] for entry in status_of(observed.plan())["conditions"])
    assert words in status
    assert not any(line in status for line in PAIR.key.decode().splitlines())
    healed = replace(blocked, credentials={"api": client_pair()}, authorities=CERTIFICATES).settled()
    assert healed.registered is not None
    assert healed.registered.sendable
    assert healed.registered.tls is not None
    assert not any(line in repr(healed.registered) for line in PAIR.key.decode().splitlines())


def test_a_client_certificate_is_used_until_it_ends() -> None:
    """Ready says when that is. Then nothing is sent, because the receiver would refuse it and use up the retries."""
    observed = tls_scene(client_pair())
    plan = observed.plan()
    assert plan.again_at == END
    assert f"The client certificate ends at {END:%Y-%m-%dT%H:%M:%SZ}." in str(status_of(plan))
    ended = observed.settled(END)
    assert ended.registered is not None
    assert (ended.registered.block_reason, ended.registered.sendable) == ("CredentialsInvalid", False)
    assert ended.registered.tls is not None
    assert ended.registered.tls.ends_at == END
    assert ended.plan(END).again_at is None


def test_equal_texts_are_one_identity_and_each_change_is_another() -> None:
    """Two endpoints with the same authorities and certificate may share connections, no others."""
    scenes = [
        tls_scene(client_pair()),
        tls_scene(client_pair(SECOND.public, SECOND.key)),
        tls_scene(client_pair(), {"ca": OTHER.pem.decode()}),
        tls_scene(client_pair(), caCertificateRefs=[]),
        tls_scene(None, clientCertificateRef=None),
    ]
    identities = [scene.settled().registered.tls for scene in (*scenes, *scenes)]  # type: ignore[union-attr]
    assert None not in identities
    assert len(set(identities)) == len(scenes)
    assert tls_scene(None, caCertificateRefs=[], clientCertificateRef=None).settled().registered.tls is None  # type: ignore[union-attr]
