"""The receivers' code on the page accepts what Hookwright sends, and refuses anything else."""

import hmac
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from support.attempts import MESSAGE, OLDER, SECRET, delivery_of, endpoint, loopback, send
from support.sample_receivers import FOLDER, sample_receiver

from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.http.signatures import signature_headers

PAGE = (ROOT / "docs" / "receivers.md").read_text()
LIBRARY, DEDUPLICATION = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BODY = '{"type":"delivered","messageId":"m-42","recipient":"Åda"}'.encode()
NAMES: Final = ("webhook-id", "webhook-timestamp", "webhook-signature", "X-Service-Signature", "Content-Type")
SAMPLES: Final = sorted(FOLDER.iterdir())


def _names(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the page's own code
    return names


async def _sent(sender: Sender, url: str, *secrets: str, now: Callable[[], float] = time.time) -> int:
    """Send one delivery that these secrets sign, and return the status of the answer."""
    to = replace(endpoint(url), secrets=secrets)
    return (await send(sender, to, delivery_of(BODY), now=now)).status_code


async def _captured(sender: Sender) -> dict[str, str]:
    """Return the headers of one real delivery."""
    async with Receiver() as receiver:
        assert await _sent(sender, receiver.url, SECRET) == 200
        (request,) = receiver.received
    return {name: request.headers[name] for name in NAMES}


async def _posted(url: str, headers: Mapping[str, str | bytes], body: bytes) -> int:
    encoding = {name.encode(): value.encode() if isinstance(value, str) else value for name, value in headers.items()}
    async with httpx.AsyncClient(timeout=60) as client:
        return (await client.post(url, headers=encoding, content=body)).status_code


def test_the_page_has_code_in_seven_languages() -> None:
    """Each is a file of the API's package, because the console shows it too."""
    assert {sample.suffix for sample in SAMPLES} == {".py", ".mjs", ".go", ".php", ".rb", ".java", ".sh"}
    assert len(SAMPLES) == 7


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.suffix[1:])
async def test_the_receiver_accepts_deliveries_and_refuses_others(sample: Path, tmp_path: Path) -> None:
    """The real sender sends each delivery; a changed one is a copy of a real one with one difference."""
    hour = 3600
    async with loopback() as sender, sample_receiver(sample, SECRET, tmp_path) as url:
        real = await _captured(sender)
        standard, service = f"{url}/hooks", f"{url}/service-signature"
        by_standard = {
            "a delivery": await _sent(sender, standard, SECRET),
            "during a rotation, with the old secret": await _sent(sender, standard, OLDER, SECRET),
            "another secret": await _sent(sender, standard, OLDER),
            "an hour old": await _sent(sender, standard, SECRET, now=lambda: time.time() - hour),
            "from the future": await _sent(sender, standard, SECRET, now=lambda: time.time() + hour),
            "the same again": await _posted(standard, real, BODY),
            "a changed body": await _posted(standard, real, BODY.replace(b"m-42", b"m-43")),
            "another id": await _posted(standard, {**real, "webhook-id": "msg_other"}, BODY),
            "another time": await _posted(standard, {**real, "webhook-timestamp": str(int(time.time()) - 9)}, BODY),
            "without signatures": await _posted(standard, {}, BODY),
            "only the signature of the body": await _posted(
                standard, {"X-Service-Signature": real["X-Service-Signature"]}, BODY
            ),
        }
        by_service = {
            "a delivery": await _sent(sender, service, SECRET),
            "during a rotation, with the old secret": await _sent(sender, service, OLDER, SECRET),
            "another secret": await _sent(sender, service, OLDER),
            "a changed body": await _posted(service, real, BODY + b" "),
            "without signatures": await _posted(service, {}, BODY),
        }
        accepted = {"a delivery", "during a rotation, with the old secret", "the same again"}
        for statuses in (by_standard, by_service):
            assert statuses == {name: 204 if name in accepted else 401 for name in statuses}
        # A server may refuse such a header itself, and need not read it in the same way.
        for value in (b"v1,\xff\xfe", b"v1,*", b"v1," * 50):
            assert await _posted(standard, {**real, "webhook-signature": value}, BODY) in {400, 401}


@pytest.mark.usefixtures("languages")
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.suffix[1:])
async def test_a_receiver_without_a_secret_accepts_nothing(sample: Path, tmp_path: Path) -> None:
    """A forgotten setting does not make the empty text a secret that everybody knows."""
    now = str(int(time.time()))
    tag = hmac.digest(b"", f"{MESSAGE}.{now}.".encode() + BODY, "sha256")
    forgery = {"webhook-id": MESSAGE, "webhook-timestamp": now, "webhook-signature": f"v1,{b64encode(tag).decode()}"}
    async with sample_receiver(sample, "", tmp_path) as url:
        assert await _posted(f"{url}/hooks", forgery, BODY) == 401
        assert await _posted(f"{url}/hooks", {**forgery, "webhook-signature": "v1,"}, BODY) == 401
        service = {"X-Service-Signature": hmac.digest(b"", BODY, "sha256").hex()}
        assert await _posted(f"{url}/service-signature", service, BODY) == 401


@pytest.mark.parametrize("secret", [SECRET, OLDER])
def test_the_library_verifies(secret: str) -> None:
    """The library of Standard Webhooks accepts a request with both secrets, and refuses changed and old ones."""
    receive = _names(LIBRARY)["receive"]
    now = int(time.time())
    headers = signature_headers([SECRET, OLDER], "msg_1", now, BODY)
    assert receive(secret, headers, BODY) == json.loads(BODY)
    with pytest.raises(Exception, match=r"(?i)signature"):
        receive(secret, headers, BODY + b" ")
    with pytest.raises(Exception, match=r"(?i)old"):
        receive(secret, signature_headers([secret], "msg_1", now - 3600, BODY), BODY)


def test_a_repetition_is_stored_once(tmp_path: Path) -> None:
    """The page's code for repetitions keeps one row for each webhook-id, over a restart of the receiver too."""
    names = _names(DEDUPLICATION)
    for _ in range(2):
        store = names["Inbox"](str(tmp_path / "inbox.db"))
        store.add("msg_1", BODY)
        store.add("msg_1", BODY)
        store.add("msg_2", BODY)
    entries: list[str] = []
    store.work(lambda msg_id, _: entries.append(msg_id))
    store.add("msg_1", BODY)
    store.work(lambda msg_id, _: entries.append(msg_id))
    assert entries == ["msg_1", "msg_2"]
