"""Requests to the intake that are chosen to cost memory or CPU. Each test counts the work; none measures time."""

import base64
import json
from typing import Any

import pytest

from hookwright_crds.documents.delivery_bodies import DeliveryConditions
from hookwright_crds.documents.event_bodies import MAX_EVENT_VALUES, MAX_VALUES
from hookwright_operator.intake import cloud_events, parsing
from hookwright_operator.intake.auth import ACCESS_REVIEWS, Access, Producer, ReviewAuth
from hookwright_operator.intake.cloud_events import MAX_ATTRIBUTES
from hookwright_operator.intake.content_mode import Mode
from hookwright_operator.intake.parsing import parse, parse_test
from hookwright_runtime import exact_json
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.problems import MAX_FAULTS, ProblemError
from hookwright_runtime.validation import query_of

SENDER = Producer("alice", b"digest", {"user": "alice"})
ACCESS = Access("get", "webhookendpoints", "deliveries", "acme", "orders")
IMPOSSIBLE = ["\U0001f600" + "x" * 8000, "x" * 254, "-x", "x.", "X", "a/b", "x\n"]
CLOUD = {"specversion": "1.0", "type": "delivered", "source": "s", "id": "1", "data": {"messageId": "m"}}
NUMBERS = [1.5] * 60_000


class Server(KubernetesClient):
    """An API server that records reviews, and grants those of all objects if a test says so."""

    def __init__(self, *, grants: bool) -> None:
        self.grants = grants
        self.reviewed: list[dict[str, Any]] = []

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a SubjectAccessReview."""
        assert path == ACCESS_REVIEWS
        self.reviewed.append(body["spec"]["resourceAttributes"])
        return {"status": {"allowed": self.grants}}


class Decoder(json.JSONDecoder):
    """A decoder that remembers the longest text that it decoded."""

    longest = 0

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        """Decode one value."""
        value, end = super().raw_decode(s, idx)
        self.longest = max(self.longest, end - idx)
        return value, end


def refusal(body: object, mode: Mode = Mode.PLAIN) -> ProblemError:
    """Return the refusal of a body."""
    with pytest.raises(ProblemError) as error:
        parse(mode, json.dumps(body).encode(), {})
    return error.value


@pytest.mark.parametrize("field", ["namespace", "name"])
async def test_names_that_no_object_can_have_share_one_cached_review(field: str) -> None:
    """A denial has the words for any unknown name; before, each name of 32 KiB was sent and cached."""
    server = Server(grants=False)
    auth = ReviewAuth(server)
    for name in IMPOSSIBLE:
        access = ACCESS._replace(**{field: name})
        with pytest.raises(ProblemError) as error:
            await auth.authorise(SENDER, access)
        assert (error.value.status, error.value.detail) == (
            403,
            f"alice may not {access}; a Role or ClusterRole must grant it",
        )
    [reviews] = server.reviewed
    assert field not in reviews


@pytest.mark.parametrize("name", ["orders", "a", "a.b-c", "x" * 253])
async def test_possible_names_are_reviewed_each(name: str) -> None:
    """The rule of names refuses no name that Kubernetes accepts."""
    server = Server(grants=True)
    await ReviewAuth(server).authorise(SENDER, ACCESS._replace(name=name))
    assert [item["name"] for item in server.reviewed] == [name]


async def test_an_impossible_name_is_an_unknown_one_for_a_caller_with_all_rights() -> None:
    """The caller passes, and the route answers that there is no such object, as before."""
    await ReviewAuth(Server(grants=True)).authorise(SENDER, ACCESS._replace(name=IMPOSSIBLE[0]))


@pytest.mark.parametrize(
    "body",
    [
        [{"type": "delivered", "messageId": "m", "n": NUMBERS}] * 2,
        {"type": "delivered", "messageId": "m", "n": NUMBERS + NUMBERS},
        {f"ABC{number}": 1.5 for number in range(MAX_VALUES + 1)},
        [[]] * MAX_VALUES,
    ],
    ids=["two events", "one event", "names", "arrays"],
)
def test_a_body_with_very_many_values_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, body: object
) -> None:
    """The answer names the bound; before, 1 MiB of numbers took 0.5 s."""
    monkeypatch.setattr(exact_json, "loads", lambda _: pytest.fail("decoded the body"))
    monkeypatch.setattr(parsing, "EVENTS_BODY_LIMIT", 1 << 24)
    problem = refusal(body)
    assert (problem.status, f"more than {MAX_VALUES} values" in problem.detail) == (422, True)
    with pytest.raises(ProblemError, match=f"more than {parsing.MAX_TEST_VALUES} values"):
        parse_test(json.dumps(body).encode(), "m")


@pytest.mark.parametrize(
    ("field", "answer"),
    [
        ({"n": [1.5] * MAX_EVENT_VALUES}, (422, f"has more than {MAX_EVENT_VALUES} values")),
        ({"n": [[[]]] * MAX_EVENT_VALUES}, (422, f"has more than {MAX_EVENT_VALUES} values")),
        ({"text": "\u00e9" * 140_000}, (413, "has at least 280")),
    ],
    ids=["numbers", "arrays", "bytes"],
)
@pytest.mark.parametrize("at", ["", "[1]"])
def test_an_event_that_takes_long_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch, field: dict[str, Any], answer: tuple[int, str], at: str
) -> None:
    """The answer names the event and the bound; before, one event could stop the event loop for 0.3 s."""
    event = {"type": "delivered", "messageId": "m", **field}
    decoder = Decoder()
    monkeypatch.setattr(exact_json, "_DECODER", decoder)
    body = json.dumps([CLOUD["data"], event] if at else event, ensure_ascii=False).encode()
    with pytest.raises(ProblemError) as error:
        parse(Mode.PLAIN, body, {})
    [fault] = error.value.errors
    assert (error.value.status, fault.field, fault.message[: len(answer[1])]) == (answer[0], at, answer[1])
    assert decoder.longest < 100


def test_data_in_base64_has_the_bound_of_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is not decoded."""
    data = base64.b64encode(json.dumps({"messageId": "m", "n": [1] * MAX_EVENT_VALUES}).encode()).decode()
    event = {key: value for key, value in CLOUD.items() if key != "data"}
    body = json.dumps([{**event, "data_base64": data}]).encode()
    monkeypatch.setattr(exact_json, "loads", lambda _: pytest.fail("decoded the data"))
    with pytest.raises(ProblemError, match=f"has more than {MAX_EVENT_VALUES} values"):
        parse(Mode.BATCH, body, {})


def test_values_in_base64_count_together_with_the_others() -> None:
    """Each text has fewer values than the bound."""
    data = base64.b64encode(json.dumps({"messageId": "m", "n": [1] * 18_000}).encode()).decode()
    event = {key: value for key, value in CLOUD.items() if key != "data"}
    batch = [{**event, "id": str(number), "data_base64": data} for number in range(6)]
    assert len(parse(Mode.BATCH, json.dumps(batch[:1]).encode(), {})) == 1
    assert f"more than {MAX_VALUES} values" in refusal(batch, Mode.BATCH).detail


def test_large_legitimate_requests_pass() -> None:
    """A thousand events of 20 fields, and a text that is nearly as long as an event may be."""
    fields = {f"field{number}": 1.5 for number in range(20)}
    many = [{"type": "delivered", "messageId": "m", **fields}] * 1000
    assert len(parse(Mode.PLAIN, json.dumps(many).encode(), {})) == 1000
    text = {"type": "delivered", "messageId": "m", "text": ',:[{\\"' * 32_000}
    assert len(parse(Mode.PLAIN, json.dumps(text).encode(), {})) == 1


def test_an_event_with_very_many_attributes_gets_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the bound pass; of more, none is checked."""
    # The required attributes count, and the data and the version do not.
    event = {**CLOUD, **{f"a{number}": number for number in range(MAX_ATTRIBUTES - 3)}}
    assert len(parse(Mode.STRUCTURED, json.dumps(event).encode(), {})) == 1
    assert refusal({**event, "b": 1}, Mode.STRUCTURED).status == 422
    monkeypatch.setattr(cloud_events, "_fault", lambda *_: pytest.fail("checked an attribute"))
    event = {**CLOUD, **{f"A{number}": 1.5 for number in range(15_000)}}
    [fault] = refusal(event, Mode.STRUCTURED).errors
    assert fault.message == f"has {15_000 + 3} attributes; at most {MAX_ATTRIBUTES} are accepted"


def test_numbers_of_attributes_are_not_serialised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each number with a point or an exponent took an exception and an encoder."""
    event = exact_json.loads(b'{"whole":12,"minus":-0,"yes":true,"no":false,"part":1.5,"long":12345678901234567890}')
    monkeypatch.setattr(exact_json, "dumps", lambda _: pytest.fail("serialised a number"))
    attributes = {name: value for name, value, _ in cloud_events.passed_on(event)}
    assert attributes == {"whole": "12", "minus": "-0", "yes": "true", "no": "false", "part": None, "long": None}


def test_unknown_names_are_listed_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a test of an endpoint, and in the query of a search."""
    names = [f"x{number}" for number in range(5_000)]
    views: list[str] = []
    monkeypatch.setattr(parsing, "excerpt_of", lambda text: views.append(text) or text)  # type: ignore[func-returns-value]
    with pytest.raises(ProblemError) as error:
        parse_test(json.dumps(dict.fromkeys(names, 1)).encode(), "m")
    assert len(error.value.errors) == len(views) == MAX_FAULTS
    with pytest.raises(ProblemError) as error:
        query_of(DeliveryConditions, {"limit": "0", **dict.fromkeys(names, "1")})
    assert len(error.value.errors) == MAX_FAULTS


@pytest.mark.parametrize("repeated", ['\\"', "\\\\", "a", "\\a"])
def test_a_header_with_an_open_quote_is_searched_once(repeated: str) -> None:
    """One match takes the whole header. Before, a search began at each quote: 64 KiB stopped the loop for 15 s."""
    value = '"' + repeated * (65_536 // len(repeated))
    assert [match.span() for match in cloud_events._QUOTATION.finditer(value)] == [(0, len(value))]
    assert cloud_events.from_headers({"ce-x": value}) == {"x": value}
