"""Forged credentials at the API and at the intake: each is refused with the words that a missing one gets.

One API and one intake on a real API server. The keys of the tables name the forgery. The genuine credentials prove
that the requests themselves would pass.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import httpx
import jwt
import pytest
from integration.api import conftest as api_fixtures
from integration.api.conftest import Organizations
from integration.intake import conftest as intake_fixtures
from support.api_processes import Organization, problem_of
from support.intake import Intake, Tokens

from hookwright_crds.keys import digest, key_id_of, mint
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, USERS_NAMESPACE, service_account_token
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator = api_fixtures.control_plane, api_fixtures.operator
api, client = api_fixtures.api, api_fixtures.client
tokens, line, intake = intake_fixtures.tokens, intake_fixtures.line, intake_fixtures.intake

Header = dict[str, object]
Raw = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Genuine:
    """Credentials that are good, and secrets that no attacker has.

    Attributes:
        key: an API key.
        token: a session token.
        other: the session token of another organization.
        producer: a ServiceAccount's token for the intake.
        kid: name of the key that signs session tokens.
        secret: that key.
    """

    key: str = field(repr=False)
    token: str = field(repr=False)
    other: str = field(repr=False)
    producer: str = field(repr=False)
    kid: str
    secret: bytes = field(repr=False)

    @property
    def claims(self) -> Header:
        """The claims of the session token."""
        return dict(jwt.decode(self.token, options={"verify_signature": False}))

    def part(self, number: int) -> str:
        """Return a part of the session token: header, claims or signature."""
        return self.token.split(".")[number]

    def signed(self, *, without: str = "", **claims: object) -> str:
        """Return a token with the genuine signature over other claims."""
        changed_claims = {name: value for name, value in {**self.claims, **claims}.items() if name != without}
        return jws({"alg": "HS256", "typ": "JWT", "kid": self.kid}, changed_claims, self.secret)

    def forged(self, secret: bytes = b"guessed", **header: object) -> str:
        """Return a token with the genuine claims, another header and a signature by another secret."""
        return jws({"alg": "HS256", "typ": "JWT", "kid": self.kid, **header}, self.claims, secret)


def encoded(raw: bytes) -> str:
    """Encode bytes as JWT does (RFC 7515, section 2)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def jws(header: Mapping[str, object], claims: Mapping[str, object], secret: bytes, algorithm: str = "sha256") -> str:
    """Sign claims with an HMAC, whatever algorithm the header names."""
    signing_input = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{signing_input}.{encoded(hmac.digest(secret, signing_input.encode(), algorithm))}"


def flipped(text: str, place: int) -> str:
    """Replace one character."""
    place %= len(text)
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


KEYS: dict[str, Callable[[Genuine], str | bytes]] = {
    "empty": lambda _: "",
    "the prefix alone": lambda _: "hw_",
    "the id alone": lambda g: g.key.rpartition("_")[0],
    "the secret alone": lambda g: g.key.rpartition("_")[2],
    "without the prefix": lambda g: g.key.removeprefix("hw_"),
    "the prefix of another product": lambda g: "sk_" + g.key.removeprefix("hw_"),
    "without its last character": lambda g: g.key[:-1],
    "with one more character": lambda g: g.key + "x",
    "with a wrong checksum": lambda g: flipped(g.key, -1),
    "with a wrong secret": lambda g: flipped(g.key, 20),
    "with a wrong id": lambda g: flipped(g.key, 5).lower(),
    "well-formed and unknown": lambda _: mint(secrets.choice).plaintext,
    "well-formed, with a known id": lambda g: mint(secrets.choice, key_id=key_id_of(g.key)).plaintext,
    "well-formed, with a guessed secret": lambda g: mint(lambda _: "a", key_id=key_id_of(g.key)).plaintext,
    "in capitals": lambda g: g.key.upper(),
    "in small letters": lambda g: g.key.lower(),
    "with a capital prefix": lambda g: "HW_" + g.key.removeprefix("hw_"),
    "in quotation marks": lambda g: f'"{g.key}"',
    "with a scheme": lambda g: f"Bearer {g.key}",
    "with a space inside": lambda g: g.key[:20] + " " + g.key[20:],
    "twice, with a comma": lambda g: f"{g.key}, {g.key}",
    "percent-encoded": lambda g: "".join(f"%{ord(character):02x}" for character in g.key),
    "in base64": lambda g: base64.b64encode(g.key.encode()),
    "with a character of Latin-1": lambda g: g.key.encode() + b"\xe9",
    "with a full-width underscore": lambda g: g.key.replace("_", "\uff3f").encode(),
    "with a space of no width": lambda g: (g.key + "\u200b").encode(),
    "20,000 characters": lambda g: g.key + "x" * 20_000,
    "its digest": lambda g: digest(g.key),
    "its SHA-256 in hexadecimal": lambda g: hashlib.sha256(g.key.encode()).hexdigest(),
    "a wildcard": lambda _: "*",
    "a condition of SQL": lambda _: "' OR '1'='1",
    "a path": lambda _: "../../secrets",
    "a session token": lambda g: g.token,
    "a token of a producer": lambda g: g.producer,
}
"""Values of ``X-Service-Key``."""

SESSIONS: dict[str, Callable[[Genuine], str | bytes]] = {
    "empty": lambda _: "",
    "the scheme alone": lambda _: "Bearer",
    "without a scheme": lambda g: g.token,
    "another scheme": lambda g: f"Basic {g.token}",
    "two schemes": lambda g: f"Bearer Bearer {g.token}",
    "a word": lambda _: "Bearer nonsense",
    "in quotation marks": lambda g: f'Bearer "{g.token}"',
    "twice, with a comma": lambda g: f"Bearer {g.token}, Bearer {g.token}",
    "percent-encoded dots": lambda g: f"Bearer {g.token.replace('.', '%2e')}",
    "without a signature": lambda g: f"Bearer {g.part(0)}.{g.part(1)}.",
    "without the third part": lambda g: f"Bearer {g.part(0)}.{g.part(1)}",
    "with a fourth part": lambda g: f"Bearer {g.token}.{g.part(2)}",
    "with a truncated signature": lambda g: f"Bearer {g.token[:-4]}",
    "with an altered signature": lambda g: f"Bearer {flipped(g.token, -10)}",
    "with the signature of another token": lambda g: f"Bearer {g.part(0)}.{g.part(1)}.{g.other.split('.')[2]}",
    "with the claims of another token": lambda g: f"Bearer {g.part(0)}.{g.other.split('.')[1]}.{g.part(2)}",
    "alg none, unsigned": lambda g: f"Bearer {g.forged(alg='none').rpartition('.')[0]}.",
    "alg none in other letters, unsigned": lambda g: f"Bearer {g.forged(alg='nOnE').rpartition('.')[0]}.",
    "alg none, with a signature": lambda g: f"Bearer {g.forged(g.secret, alg='none')}",
    "without alg": lambda g: f"Bearer {jws({'kid': g.kid}, g.claims, g.secret)}",
    "alg is a list": lambda g: f"Bearer {jws({'alg': ['HS256'], 'kid': g.kid}, g.claims, g.secret)}",
    "alg HS384": lambda g: f"Bearer {jws({'alg': 'HS384', 'kid': g.kid}, g.claims, g.secret, 'sha384')}",
    "alg HS512": lambda g: f"Bearer {jws({'alg': 'HS512', 'kid': g.kid}, g.claims, g.secret, 'sha512')}",
    "alg RS256, signed with an HMAC": lambda g: f"Bearer {g.forged(g.secret, alg='RS256')}",
    "alg ES256, signed with an HMAC": lambda g: f"Bearer {g.forged(g.secret, alg='ES256')}",
    "signed with no key": lambda g: f"Bearer {g.forged(b'')}",
    "signed with the name of the key": lambda g: f"Bearer {g.forged(g.kid.encode())}",
    "signed with the text of the key": lambda g: f"Bearer {g.forged(base64.b64encode(g.secret))}",
    "an unknown key": lambda g: f"Bearer {g.forged(kid='k1')}",
    "a key that is a path": lambda g: f"Bearer {g.forged(b'', kid='../../../dev/null')}",
    "a key that is SQL": lambda g: "Bearer " + g.forged(b"", kid="x' UNION SELECT ''--"),
    "a key that is a list": lambda g: f"Bearer {jws({'alg': 'HS256', 'kid': [g.kid]}, g.claims, g.secret)}",
    "without a key's name": lambda g: f"Bearer {jws({'alg': 'HS256'}, g.claims, g.secret)}",
    "its own key in the header": lambda g: f"Bearer {g.forged(jwk={'kty': 'oct', 'k': encoded(b'guessed')})}",
    "a key to fetch": lambda g: f"Bearer {g.forged(jku='http://127.0.0.1:9/keys')}",
    "a critical extension": lambda g: (
        f"Bearer {jws({'alg': 'HS256', 'kid': g.kid, 'crit': ['x'], 'x': 1}, g.claims, g.secret)}"
    ),
    "expired": lambda g: f"Bearer {g.signed(exp=int(time.time()) - 1)}",
    "without an end": lambda g: f"Bearer {g.signed(without='exp')}",
    "without a beginning": lambda g: f"Bearer {g.signed(without='iat')}",
    "without a user": lambda g: f"Bearer {g.signed(without='sub')}",
    "not good yet": lambda g: f"Bearer {g.signed(nbf=int(time.time()) + 3600)}",
    "for another audience": lambda g: f"Bearer {g.signed(aud='hookwright')}",
    "for no audience": lambda g: f"Bearer {g.signed(without='aud')}",
    "of another issuer": lambda g: f"Bearer {g.signed(iss='https://attacker.example')}",
    "of a user that does not exist": lambda g: f"Bearer {g.signed(sub='nobody@example.com')}",
    "of another password": lambda g: f"Bearer {g.signed(pwf='0' * 16)}",
    "without the password's mark": lambda g: f"Bearer {g.signed(without='pwf')}",
    "claims that are a list": lambda g: f"Bearer {jws({'alg': 'HS256', 'kid': g.kid}, ['x'], g.secret)}",  # type: ignore[arg-type]
    "20,000 characters": lambda g: f"Bearer {g.token}{'x' * 20_000}",
    "with a character of Latin-1": lambda g: f"Bearer {g.token}".encode() + b"\xe9",
    "an API key": lambda g: f"Bearer {g.key}",
    "a token of a producer": lambda g: f"Bearer {g.producer}",
}
"""Values of ``Authorization`` at the API. Those with the genuine signature prove that each claim is checked."""

ELSEWHERE: dict[str, tuple[Callable[[Genuine], Raw], str, int]] = {
    "a key in the query": (lambda _: [], "?X-Service-Key={key}", 401),
    "a key in a cookie": (lambda g: [(b"Cookie", b"X-Service-Key=" + g.key.encode())], "", 401),
    "a key in another header": (lambda g: [(b"X-Api-Key", g.key.encode())], "", 401),
    "a key in a header with an underscore": (lambda g: [(b"X_Service_Key", g.key.encode())], "", 401),
    "a token in the query": (lambda _: [], "?access_token={token}", 401),
    "a token in a cookie": (lambda g: [(b"Cookie", b"Authorization=Bearer " + g.token.encode())], "", 401),
    "a token for a proxy": (lambda g: [(b"Proxy-Authorization", b"Bearer " + g.token.encode())], "", 401),
    "a good key and a good token": (
        lambda g: [(b"X-Service-Key", g.key.encode()), (b"Authorization", b"Bearer " + g.token.encode())],
        "",
        400,
    ),
    "a good key and a bad token": (
        lambda g: [(b"X-Service-Key", g.key.encode()), (b"Authorization", b"Bearer nonsense")],
        "",
        400,
    ),
    "a good key and an empty Authorization": (
        lambda g: [(b"X-Service-Key", g.key.encode()), (b"Authorization", b"")],
        "",
        400,
    ),
    "a bad key before a good one": (lambda g: [(b"X-Service-Key", b"x"), (b"X-Service-Key", g.key.encode())], "", 400),
    "a good key before a bad one": (lambda g: [(b"X-Service-Key", g.key.encode()), (b"X-Service-Key", b"x")], "", 400),
    "a bad token before a good one": (
        lambda g: [(b"Authorization", b"Bearer x"), (b"Authorization", b"Bearer " + g.token.encode())],
        "",
        400,
    ),
    "the name of the organization": (lambda _: [(b"X-Organization", b"acme"), (b"X-Remote-User", b"admin")], "", 401),
}
"""Credentials in other places, and several at once: the headers, the query and the status."""

PRODUCERS: dict[str, Callable[[Tokens, Genuine], Raw]] = {
    "no header": lambda _t, _g: [],
    "empty": lambda _t, _g: [(b"Authorization", b"")],
    "the scheme alone": lambda _t, _g: [(b"Authorization", b"Bearer")],
    "another scheme": lambda t, _g: bearer(t.sender, scheme="Basic"),
    "without a scheme": lambda t, _g: [(b"Authorization", t.sender.encode())],
    "a word": lambda _t, _g: bearer("nonsense"),
    "two words": lambda _t, _g: bearer("a b"),
    "a character beyond ASCII": lambda _t, _g: bearer("\u00e9"),
    "in quotation marks": lambda t, _g: bearer(f'"{t.sender}"'),
    "20,000 characters": lambda _t, _g: bearer("x" * 20_000),
    "made for another audience": lambda t, _g: bearer(t.misdirected),
    "an altered signature": lambda t, _g: bearer(flipped(t.sender, -10)),
    "without a signature": lambda t, _g: bearer(t.sender.rpartition(".")[0] + "."),
    "alg none": lambda t, _g: bearer(reheaded(t.sender, alg="none").rpartition(".")[0] + "."),
    "alg none with the signature": lambda t, _g: bearer(reheaded(t.sender, alg="none")),
    "alg HS256 with the signature": lambda t, _g: bearer(reheaded(t.sender, alg="HS256")),
    "an HMAC by the name of the key": lambda t, _g: bearer(hmac_signed(t.sender)),
    "the claims of another account": lambda t, _g: bearer(swapped(t.sender, t.stranger)),
    "twice, with a comma": lambda t, _g: bearer(f"{t.sender}, Bearer {t.sender}"),
    "an API key": lambda _t, g: bearer(g.key),
    "an API key in the API's header": lambda _t, g: [(b"X-Service-Key", g.key.encode())],
    "a session token of the API": lambda _t, g: bearer(g.token),
    "a user by header": lambda _t, _g: [(b"X-Remote-User", b"system:admin"), (b"X-Remote-Group", b"system:masters")],
    "another user by header": lambda _t, _g: [(b"Impersonate-User", b"system:admin")],
    "in a cookie": lambda t, _g: [(b"Cookie", b"Authorization=Bearer " + t.sender.encode())],
    "for a proxy": lambda t, _g: [(b"Proxy-Authorization", b"Bearer " + t.sender.encode())],
}
"""Headers of a request to the intake."""


def bearer(token: str, *, scheme: str = "Bearer") -> Raw:
    """Return the header that carries a token."""
    return [(b"Authorization", f"{scheme} {token}".encode())]


def header_of(token: str) -> Header:
    """Return the header of a token."""
    head = token.split(".", maxsplit=1)[0]
    return dict(json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4))))


def reheaded(token: str, **changes: object) -> str:
    """Return a token with another header and the old signature."""
    _, claims, signature = token.split(".")
    return f"{encoded(json.dumps({**header_of(token), **changes}).encode())}.{claims}.{signature}"


def hmac_signed(token: str) -> str:
    """Return a token with an HMAC that is keyed with public text."""
    head, claims, _ = reheaded(token, alg="HS256").split(".")
    signature = hmac.digest(str(header_of(token)["kid"]).encode(), f"{head}.{claims}".encode(), "sha256")
    return f"{head}.{claims}.{encoded(signature)}"


def swapped(token: str, other: str) -> str:
    """Return a token with the claims of another one."""
    head, _, signature = token.split(".")
    return f"{head}.{other.split('.')[1]}.{signature}"


@pytest.fixture(scope="module")
def genuine(control_plane: Cluster, client: httpx.Client) -> Iterator[Genuine]:
    """Two organizations, and the credentials that the tables start from."""
    organizations = Organizations(control_plane, client)
    acme, rival = organizations.new("acme"), organizations.new("rival")
    acme.project()
    key, token, neighbour = acme.key()["key"], token_of(acme), token_of(rival)
    kid = str(header_of(token)["kid"])
    session_keys = control_plane.objects.get("Secret", "hookwright-session-keys", USERS_NAMESPACE) or {}
    producer = service_account_token(
        control_plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience="hookwright"
    )
    yield Genuine(key, token, neighbour, producer, kid, base64.b64decode(base64.b64decode(session_keys["data"][kid])))
    organizations.remove()


def token_of(organization: Organization) -> str:
    """Return a session token of an organization's user."""
    return organization.session()["Authorization"].removeprefix("Bearer ")


def check_refused(answer: httpx.Response, client: httpx.Client) -> None:
    """Check that a refusal is the one that a missing credential gets."""
    problem_of(answer, 401)
    assert answer.text == client.get("/v1/webhooks?project=billing").text
    assert answer.headers["www-authenticate"] == 'Bearer realm="hookwright"'


def ask(client: httpx.Client, headers: Raw, query: str = "?project=billing") -> httpx.Response:
    """List webhooks with these headers alone."""
    return client.get(f"/v1/webhooks{query}", headers=httpx.Headers(headers))


def test_the_genuine_credentials_pass(client: httpx.Client, genuine: Genuine) -> None:
    """The requests of these tables fail for their credential and for nothing else."""
    assert ask(client, [(b"X-Service-Key", genuine.key.encode())], "").status_code == 200
    for token in (genuine.token, genuine.signed(), genuine.forged(genuine.secret)):
        assert ask(client, bearer(token)).status_code == 200


@pytest.mark.parametrize("sentence", KEYS)
def test_a_forged_api_key_is_refused(client: httpx.Client, genuine: Genuine, sentence: str) -> None:
    """401, in the words for no key at all."""
    value = KEYS[sentence](genuine)
    check_refused(ask(client, [(b"X-Service-Key", value.encode() if isinstance(value, str) else value)]), client)


@pytest.mark.parametrize("sentence", SESSIONS)
def test_a_forged_session_token_is_refused(client: httpx.Client, genuine: Genuine, sentence: str) -> None:
    """401, in the words for no token at all."""
    value = SESSIONS[sentence](genuine)
    check_refused(ask(client, [(b"Authorization", value.encode() if isinstance(value, str) else value)]), client)


@pytest.mark.parametrize("sentence", ELSEWHERE)
def test_a_credential_counts_in_its_own_header_alone(client: httpx.Client, genuine: Genuine, sentence: str) -> None:
    """Two credentials at once are refused, of two kinds or of one."""
    headers, query, status = ELSEWHERE[sentence]
    query = query.format(key=genuine.key, token=genuine.token)
    answer = ask(client, headers(genuine), query or "?project=billing" if status == 401 else query)
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("sentence", PRODUCERS)
async def test_a_forged_token_of_a_producer_is_refused(
    intake: Intake, tokens: Tokens, genuine: Genuine, sentence: str
) -> None:
    """401, in the words for no token at all, and the event is not accepted."""
    async with httpx.AsyncClient(base_url=intake.client.base_url, trust_env=False, timeout=30.0) as stranger:
        event = {"type": "delivered", "messageId": "m-1"}
        missing = await stranger.post("/projects/billing/events", json=event)
        headers = httpx.Headers(PRODUCERS[sentence](tokens, genuine))
        answer = await stranger.post("/projects/billing/events", json=event, headers=headers)
    problem_of(answer, 401)
    assert answer.text == missing.text
    assert answer.headers["www-authenticate"] == "Bearer"
    assert await intake.events() == []
    assert (await intake.client.post("/projects/billing/events", json=event)).status_code == 202
