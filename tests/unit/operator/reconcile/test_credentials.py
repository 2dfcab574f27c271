"""The verdicts about secret headers: an endpoint sends all of them to an allowed host, or it sends nothing."""

from dataclasses import replace
from typing import Any

import pytest
from support.reconcile_scenes import EndpointScene, in_words, status_of, steady_endpoint, without_status

from hookwright_crds.base import CREDENTIAL_LABEL, HOSTS_ANNOTATION
from hookwright_crds.resources import WebhookEndpointSpec
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
