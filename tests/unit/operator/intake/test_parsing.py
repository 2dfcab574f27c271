"""The form of a request's body, and the events in it."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from cloudevents.core.bindings import http
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.events import CLOUDEVENT_PREFIX, EVENT_TYPES
from hookwright_operator.intake import parsing
from hookwright_operator.intake.content_mode import Mode, mode_of
from hookwright_operator.intake.parsing import MAX_EVENT_BYTES, parse, parse_test
from hookwright_operator.services.events import IncomingEvent
from hookwright_runtime import exact_json
from hookwright_runtime.problems import ProblemError

PLAIN = {"content-type": "application/json"}
STRUCTURED = {"content-type": "application/cloudevents+json"}
BATCH = {"content-type": "application/cloudevents-batch+json"}
BINARY = {
    **PLAIN,
    "ce-specversion": "1.0",
    "ce-id": "e-1",
    "ce-source": "/mailer",
    "ce-type": "dev.hookwright.bounced",
}
EVENT = {"id": "e-1", "type": "delivered", "messageId": "m-1"}
CLOUD = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/mailer",
    "type": "dev.hookwright.bounced",
    "data": {"messageId": "m-1", "n": 1},
}


def read(body: bytes | object, headers: dict[str, str] = PLAIN) -> tuple[IncomingEvent, ...]:
    """Parse a body, given as bytes or as a value."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse(mode_of(headers), raw, headers)


def refusal(body: bytes | object, headers: dict[str, str] = PLAIN) -> ProblemError:
    """Parse a body and return its refusal."""
    with pytest.raises(ProblemError) as error:
        read(body, headers)
    return error.value


def status(body: bytes | object, headers: dict[str, str]) -> int:
    """Return the status of the answer to a body."""
    try:
        return 202 if read(body, headers) else 0
    except ProblemError as problem:
        return problem.status


def fields(problem: ProblemError) -> list[str]:
    """Return the fields that a refusal names."""
    return [fault.field for fault in problem.errors]


def without(event: dict[str, Any], *names: str, **changes: object) -> dict[str, Any]:
    """Return a changed event."""
    return {name: value for name, value in event.items() if name not in names} | changes


def test_a_plain_event_is_sent_with_type_and_message_id_first() -> None:
    """The body starts with type and messageId, followed by the producer's fields."""
    body = '{"to":"ä@example.org","id":"e-1","messageId":"m-1","n":1.50,"type":"dev.hookwright.wa_read"}'.encode()
    (event,) = read(body)
    assert event[:4] == (
        "e-1",
        "wa_read",
        "m-1",
        '{"type":"wa_read","messageId":"m-1","to":"ä@example.org","id":"e-1","n":1.50}'.encode(),
    )
    assert event.attributes is None


def test_an_event_without_id_has_none() -> None:
    """An id is optional; null counts as none."""
    assert read(without(EVENT, "id"))[0].event_id is None
    assert read(without(EVENT, id=None))[0].event_id is None


def test_an_array_keeps_its_order() -> None:
    """Events are accepted in their order."""
    events = read([without(EVENT, id=f"e-{number}") for number in range(1000)])
    assert [event.event_id for event in events] == [f"e-{number}" for number in range(1000)]


def test_a_long_number_is_sent_as_it_came() -> None:
    """A number in a payload is not rounded."""
    (event,) = read(b'{"type":"clicked","messageId":"m","amount":12345678901234567.89}')
    assert event.body == b'{"type":"clicked","messageId":"m","amount":12345678901234567.89}'


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Z")), min_size=1, max_size=256)
FIELDS = st.dictionaries(
    st.text().filter(lambda name: name not in ("id", "type", "messageId")),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    max_size=5,
)
TYPES = st.sampled_from([*EVENT_TYPES, *(CLOUDEVENT_PREFIX + name for name in EVENT_TYPES)])


@given(given_id=NAMES, kind=TYPES, message_id=NAMES, more=FIELDS)
def test_every_accepted_body_holds_type_message_id_and_the_producers_fields(
    given_id: str, kind: str, message_id: str, more: dict[str, Any]
) -> None:
    """A producer's event is never changed or shortened."""
    request = {**more, "messageId": message_id, "type": kind, "id": given_id}
    (event,) = read(request)
    bare = kind.removeprefix(CLOUDEVENT_PREFIX)
    assert (event.event_id, event.type, event.message_id) == (given_id, bare, message_id)
    assert json.loads(event.body) == {**request, "type": bare}
    assert list(json.loads(event.body))[:2] == ["type", "messageId"]


@given(given_id=NAMES, kind=TYPES, source=NAMES, message_id=NAMES, more=FIELDS)
def test_the_cloudevents_sdk_can_send_in_binary_and_structured_mode(
    given_id: str, kind: str, source: str, message_id: str, more: dict[str, Any]
) -> None:
    """An event that the SDK serializes is the same in both modes."""
    data = {**more, "messageId": message_id}
    attributes = {"id": given_id, "type": kind, "source": source, "datacontenttype": "application/json"}
    cloud = CloudEvent(attributes=attributes, data=data)
    bare = kind.removeprefix(CLOUDEVENT_PREFIX)
    for message in (http.to_binary_event(cloud), http.to_structured_event(cloud)):
        headers = {name.lower(): value for name, value in message.headers.items()}
        (event,) = read(message.body, headers)
        assert (event.event_id, event.type, event.message_id) == (f"{source}\n{given_id}", bare, message_id)
        assert json.loads(event.body) == {"type": bare, **data}
        assert event.digest is None
        assert {"id": given_id, "type": kind, "source": source}.items() <= attributes_of(event).items()


@given(st.lists(st.tuples(NAMES, TYPES, NAMES), min_size=1, max_size=5))
def test_the_cloudevents_sdk_can_send_batches(drawn: list[tuple[str, str, str]]) -> None:
    """A batch is an array of structured events (JSON event format, section 4)."""
    events = [
        http.to_structured_event(CloudEvent({"id": name, "type": kind, "source": "/m"}, {"messageId": message_id})).body
        for name, kind, message_id in drawn
    ]
    matches = read(b"[" + b",".join(events) + b"]", BATCH)
    assert [(event.event_id, event.message_id) for event in matches] == [
        (f"/m\n{name}", last) for name, _, last in drawn
    ]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("e%20%C3%A9", "e é"),
        ("%E2%82%AC", "€"),
        ("100%2525", "100%25"),
        ("50%", "50%"),
        ('"a \\"b\\" c"', 'a "b" c'),
        ('"Euro %E2%82%AC"', "Euro €"),
        ("a+b", "a+b"),
        ("é".encode().decode("latin-1"), "é"),
        (r'x"\\"y', r"x\y"),
        ('"a" and "b', 'a and "b'),
        (r'"a\"', r'"a\"'),
        ('"', '"'),
        ('""', ""),
        ("a%20b%22", 'a b"'),
    ],
)
def test_header_values_are_unquoted_and_percent_decoded_once(header: str, wanted: str) -> None:
    """CloudEvents HTTP binding, 3.1.3.2, including old quoted strings; one without its closing quote is unchanged."""
    (event,) = read({"messageId": "m"}, {**BINARY, "ce-x": header})
    assert attributes_of(event)["x"] == wanted


@given(NAMES)
def test_every_encoded_header_value_is_decoded(name: str) -> None:
    """Decoding reverses the binding's encoding."""
    (event,) = read({"messageId": "m"}, {**BINARY, "ce-id": quote(name, safe="")})
    assert event.event_id == f"/mailer\n{name}"


def attributes_of(event: IncomingEvent) -> dict[str, str]:
    """Return the attributes that are passed on."""
    assert event.attributes is not None
    document: dict[str, str] = json.loads(event.attributes)
    return document


ATTRIBUTES = {
    "time": "2026-01-31T12:00:00.5+01:00",
    "subject": "größe 😀",
    "dataschema": "https://example.org/s#1",
    "partitionkey": "",
    "myinteger": -7,
    "myboolean": True,
}
KEPT = {"id": "e-1", "source": "/mailer", "type": "dev.hookwright.bounced", **ATTRIBUTES}
KEPT |= {"myinteger": "-7", "myboolean": "true"}


def test_the_attributes_of_a_cloudevent_are_kept_in_every_mode() -> None:
    """Time, subject and extensions are kept, as headers spell them; version and content type are not passed on."""
    event_body = {**CLOUD, **ATTRIBUTES, "datacontenttype": "application/json", "nothing": None}
    assert attributes_of(read(event_body, STRUCTURED)[0]) == KEPT
    assert attributes_of(read([event_body], BATCH)[0]) == KEPT
    headers = {f"ce-{name}": quote(str(value), safe=":/+#") for name, value in KEPT.items()}
    binary = {**BINARY, **headers, "ce-datacontenttype": "application/json", "x-ce-other": "1"}
    assert attributes_of(read({"messageId": "m"}, binary)[0]) == KEPT


def test_an_integer_attribute_beside_a_long_number_is_kept() -> None:
    """A long number in the data changes how all numbers of the body are read."""
    body = json.dumps({**CLOUD, "sequence": 5}).replace('"n": 1', '"n": 12345678901234567.89').encode()
    assert attributes_of(read(body, STRUCTURED)[0])["sequence"] == "5"


def test_binary_mode_without_a_content_type_is_json() -> None:
    """Python's SDK sends no Content-Type for an event without datacontenttype."""
    cloud = CloudEvent({"id": "e-1", "type": "delivered", "source": "/m"}, {"messageId": "m"})
    message = http.to_binary_event(cloud)
    headers = {name.lower(): value for name, value in message.headers.items()}
    assert "content-type" not in headers
    assert read(message.body, headers)[0].event_id == "/m\ne-1"
    assert refusal(b"{}", {**headers, "content-type": "text/plain"}).status == 415


def test_ids_of_two_sources_and_of_plain_events_are_different_ids() -> None:
    """No producer's id equals the id of a CloudEvent."""
    plain = read(EVENT)[0].event_id
    first = read(CLOUD, STRUCTURED)[0].event_id
    second = read({**CLOUD, "source": "/other"}, STRUCTURED)[0].event_id
    assert len({plain, first, second}) == 3


@pytest.mark.parametrize(
    ("body", "same"),
    [
        (b'{"id":"e-1","type":"delivered","messageId":"m-1","a":{"x":1,"y":[1,2]}}', True),
        (
            b' {"a": {"y": [1, 2], "x": 1}, "messageId": "\\u006d-1", "type": "dev.hookwright.delivered", "id": "e-1"}',
            True,
        ),
        (b'{"id":"e-1","type":"delivered","messageId":"m-1","a":{"x":1,"y":[2,1]}}', False),
        (b'{"id":"e-1","type":"delivered","messageId":"m-1","a":{"x":2,"y":[1,1]}}', False),
        (b'{"id":"e-1","type":"delivered","messageId":"m-2","a":{"x":1,"y":[1,2]}}', False),
        (b'{"id":"e-1","type":"opened","messageId":"m-1","a":{"x":1,"y":[1,2]}}', False),
        (b'{"id":"e-1","type":"delivered","messageId":"m-1","a":{"x":1,"y":[1,2]},"b":null}', False),
    ],
)
def test_the_digest_depends_on_the_content_alone(body: bytes, same: bool) -> None:  # noqa: FBT001
    """Spaces, escapes and the order of fields do not matter; an event without an id has no digest."""
    record = read(b'{"id":"e-1","messageId":"m-1","type":"delivered","a":{"x":1,"y":[1,2]}}')[0].digest
    assert (read(body)[0].digest == record) is same
    assert read(without(EVENT, "id"))[0].digest is None


@given(FIELDS, st.randoms(use_true_random=False))
def test_fields_in_any_order_have_one_digest(more: dict[str, Any], order: Any) -> None:
    """A producer whose maps have no order can repeat an event."""
    event = {**more, **EVENT}
    shuffle = dict(order.sample(list(event.items()), len(event)))
    assert read(event)[0].digest == read(shuffle)[0].digest


def test_base64_data_is_decoded() -> None:
    """Producers that can only send bytes are accepted."""
    data = base64.b64encode(b'{"messageId":"m-1","n":1.0000000000000000001}').decode()
    (event,) = read(without(CLOUD, "data", data_base64=data), STRUCTURED)
    assert event.body == b'{"type":"bounced","messageId":"m-1","n":1.0000000000000000001}'


def test_a_cloudevent_may_repeat_its_type_in_its_data() -> None:
    """The type in the data may have the prefix or not, if it is the same type."""
    (event,) = read(without(CLOUD, data={"type": "bounced", "messageId": "m"}), STRUCTURED)
    assert event.body == b'{"type":"bounced","messageId":"m"}'


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, "missing"),
        ({"content-type": "text/plain"}, "text/plain"),
        ({"content-type": "application/cloudevents+avro"}, "avro"),
        ({"content-type": "application/json; charset=latin-1"}, "utf-8"),
        ({"content-type": 'application/cloudevents+json; charset="utf-16"'}, "utf-8"),
        ({**PLAIN, "content-encoding": "gzip"}, "gzip"),
    ],
)
def test_other_media_types_are_refused_with_what_is_right(headers: dict[str, str], word: str) -> None:
    """The answer is 415, before the body is parsed."""
    problem = refusal(b"", headers)
    assert problem.status == 415
    assert word in problem.detail


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", "application/json;charset=UTF-8", 'application/json ; charset="utf-8"'],
)
def test_a_content_type_may_be_written_in_any_way(content_type: str) -> None:
    """Letter case, spaces and quotes do not matter (RFC 9110, 8.3.1)."""
    assert len(read(EVENT, {"content-type": content_type})) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 10_000, b'{"type":NaN}', b'{"type":"\\ud800"}', b'{"type":1,"type":1}', b"\xff"]
)
@pytest.mark.parametrize("headers", [PLAIN, STRUCTURED, BATCH, BINARY])
def test_malformed_json_is_400(body: bytes, headers: dict[str, str]) -> None:
    """Malformed JSON is a 400 in every mode."""
    assert refusal(body, headers).status == 400


FAULTS: dict[str, tuple[object, dict[str, str], list[str]]] = {
    "an unknown type": (without(EVENT, type="vanished"), PLAIN, ["type"]),
    "no type": (without(EVENT, "type"), PLAIN, ["type"]),
    "a type that is no string": (without(EVENT, type=1), PLAIN, ["type"]),
    "the prefix twice": (without(EVENT, type=f"{CLOUDEVENT_PREFIX * 2}delivered"), PLAIN, ["type"]),
    "no messageId": (without(EVENT, "messageId"), PLAIN, ["messageId"]),
    "an empty messageId": (without(EVENT, messageId=""), PLAIN, ["messageId"]),
    "a messageId too long": (without(EVENT, messageId="m" * 257), PLAIN, ["messageId"]),
    "an id with a line break": (without(EVENT, id="a\nb"), PLAIN, ["id"]),
    "an empty id": (without(EVENT, id=""), PLAIN, ["id"]),
    "an id that is a long number": (b'{"id":1.0000000000000000001,"type":"sms_sent","messageId":"m"}', PLAIN, ["id"]),
    "everything at once": ({"id": 7}, PLAIN, ["id", "type"]),
    "no object": ("delivered", PLAIN, [""]),
    "an empty array": ([], PLAIN, [""]),
    "too many events": ([EVENT] * 1001, PLAIN, [""]),
    "faults deep in an array": (
        [EVENT, EVENT, 3, without(EVENT, "messageId"), without(EVENT, "messageId", type="x")],
        PLAIN,
        ["[2]", "[3].messageId", "[4].type"],
    ),
    "an array in an array": ([[EVENT]], PLAIN, ["[0]"]),
    "another specversion": (without(CLOUD, specversion="0.3"), STRUCTURED, ["specversion"]),
    "no specversion": (without(CLOUD, "specversion"), STRUCTURED, ["specversion"]),
    "no source and no id": (without(CLOUD, "source", "id"), STRUCTURED, ["source", "id"]),
    "no data": (without(CLOUD, "data"), STRUCTURED, ["data"]),
    "data that is no object": (without(CLOUD, data="text"), STRUCTURED, ["data"]),
    "data without messageId": (without(CLOUD, data={}), STRUCTURED, ["data.messageId"]),
    "data of another type": (without(CLOUD, data={"type": "opened", "messageId": "m"}), STRUCTURED, ["data.type"]),
    "data of an unknown type": (without(CLOUD, data={"type": "x", "messageId": "m"}), STRUCTURED, ["data.type"]),
    "data twice": (without(CLOUD, data_base64="e30="), STRUCTURED, ["data_base64", "data"]),
    "data that is no base64": (without(CLOUD, "data", data_base64="*"), STRUCTURED, ["data_base64", "data"]),
    "data that is no text": (without(CLOUD, "data", data_base64=5), STRUCTURED, ["data_base64", "data"]),
    "base64 of no JSON": (without(CLOUD, "data", data_base64="e3s="), STRUCTURED, ["data_base64", "data"]),
    "an array where one is due": ([CLOUD], STRUCTURED, [""]),
    "one where an array is due": (CLOUD, BATCH, [""]),
    "an empty batch": ([], BATCH, [""]),
    "a fault in a batch": ([CLOUD, without(CLOUD, type="x")], BATCH, ["[1].type"]),
    "no data in a batch": ([CLOUD, without(CLOUD, "data")], BATCH, ["[1].data"]),
    "binary of another version": ({"messageId": "m"}, {**BINARY, "ce-specversion": "2.0"}, ["ce-specversion"]),
    "binary without a version": ({"messageId": "m"}, without(BINARY, "ce-specversion"), ["ce-specversion"]),
    "binary with a broken id": ({"messageId": "m"}, {**BINARY, "ce-id": "%FF"}, ["ce-id"]),
    "binary without messageId": ({}, BINARY, ["messageId"]),
    "binary with an array": ([], BINARY, [""]),
    "an attribute with a wrong name": ({**CLOUD, "My-Extension": "x"}, STRUCTURED, ["My-Extension"]),
    "an attribute that is an object": ({**CLOUD, "extension": {}}, STRUCTURED, ["extension"]),
    "an attribute with a fraction": ({**CLOUD, "extension": 1.5}, STRUCTURED, ["extension"]),
    "an attribute with a line break": ({**CLOUD, "extension": "a\r\nX-Injected: b"}, STRUCTURED, ["extension"]),
    "a time without a zone": ({**CLOUD, "time": "2026-01-31T12:00:00"}, STRUCTURED, ["time"]),
    "a time that does not exist": ({**CLOUD, "time": "2030-99-99T99:99:99Z"}, STRUCTURED, ["time"]),
    "an empty subject": ({**CLOUD, "subject": ""}, STRUCTURED, ["subject"]),
    "attributes beyond the bound": ({**CLOUD, "extension": "x" * 4096}, STRUCTURED, [""]),
    "many attributes": ([{**CLOUD, **{f"e{n}": "x" for n in range(1000)}}], BATCH, ["[0]"]),
    "binary with a line break": ({"messageId": "m"}, {**BINARY, "ce-x": "a%0D%0Ab"}, ["ce-x"]),
    "binary with an attribute that is no text": ({"messageId": "m"}, {**BINARY, "ce-x": "%FF"}, ["ce-x"]),
    "binary with a wrong time": ({"messageId": "m"}, {**BINARY, "ce-time": "now"}, ["ce-time"]),
    "binary with a time that does not exist": (
        {"messageId": "m"},
        {**BINARY, "ce-time": "2030-02-30T00:00:00Z"},
        ["ce-time"],
    ),
    "binary of two types": ({"type": "opened", "messageId": "m"}, BINARY, ["type"]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_is_422_and_named_by_its_field(case: str) -> None:
    """The answer names the event and the field of each fault."""
    body, headers, expected = FAULTS[case]
    problem = refusal(body, headers)
    assert (problem.status, fields(problem)) == (422, expected)


def test_a_wrong_specversion_is_told_the_right_one() -> None:
    """The message names the correct version."""
    (fault,) = refusal(without(CLOUD, specversion="0.3"), STRUCTURED).errors
    assert '"1.0"' in fault.message


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"type": "invoice.paid"}', b'{"type":"invoice.paid","amount":1,"test":true}'),
        (b'{"type": "invoice.paid", "payload": {}}', b'{"type":"invoice.paid","test":true}'),
    ],
)
def test_a_test_of_an_own_type_has_its_example_unless_it_has_a_payload(body: bytes, expected: bytes) -> None:
    """A test through the intake and one through /v1 send the same."""
    assert parse_test(body, "test_1", {"invoice.paid": '{"amount": 1}'}).body == expected


def test_an_answer_names_a_bounded_number_of_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a thousand wrong events stays small, and costs as much as some dozen."""
    calls = []
    payload = parsing._payload
    monkeypatch.setattr(parsing, "_payload", lambda *given: calls.append(1) or payload(*given))  # type: ignore[func-returns-value]
    problem = refusal([{}] * 1000)
    assert len(problem.errors) == 50
    assert len(calls) <= 51
    assert "further faults are not listed" in problem.detail


def test_an_event_beyond_the_limit_gets_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused after it was serialised once."""
    monkeypatch.setattr(exact_json, "digest", lambda *_: pytest.fail("computed a digest"))
    assert refusal(without(EVENT, pad="x" * MAX_EVENT_BYTES)).status == 413


def test_an_event_may_be_as_large_as_the_limit_and_no_larger() -> None:
    """The limit counts the bytes that are sent."""
    bare = len(read(without(EVENT, pad=""))[0].body)
    assert len(read(without(EVENT, pad="x" * (MAX_EVENT_BYTES - bare)))[0].body) == MAX_EVENT_BYTES
    problem = refusal([EVENT, without(EVENT, pad="x" * (MAX_EVENT_BYTES - bare + 1))])
    assert (problem.status, fields(problem)) == (413, ["[1]"])


def test_a_body_beyond_the_limit_is_413() -> None:
    """A body beyond the limit is refused before it is parsed."""
    assert refusal(b" " * (EVENTS_BODY_LIMIT + 1)).status == 413


@given(st.binary(max_size=200), st.sampled_from([PLAIN, STRUCTURED, BATCH, BINARY]))
def test_no_bytes_do_worse_than_a_refusal(body: bytes, headers: dict[str, str]) -> None:
    """Arbitrary bytes result in a problem or in events."""
    assert status(body, headers) in (202, 400, 422)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(EVENT_TYPES),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*CLOUD, "messageId", "data_base64"]), inner, max_size=6)
        ),
        max_leaves=20,
    ),
    st.sampled_from([PLAIN, STRUCTURED, BATCH, BINARY]),
)
def test_no_shape_does_worse_than_a_refusal(value: object, headers: dict[str, str]) -> None:
    """Values of any type in the checked fields are refused, without a crash."""
    assert status(value, headers) in (202, 400, 422)


@pytest.mark.parametrize("size", [0, parsing.PIECE_BYTES])
def test_an_idempotency_key_gives_each_event_an_id(size: int) -> None:
    """It follows from the key, the position and the content; the order of fields does not matter."""
    numbers = [b'"n":1.0', b'"n":1.0', b'"n":1.00', b'"n":"1.0"', b'"id":"evt-1"']
    prefix = b'"type":"delivered","messageId":"m","text":"%b"' % (b"x" * size)

    def ids(form: bytes, key: str) -> list[str | None]:
        body = b"[" + b",".join(form % number for number in numbers) + b"]"
        return [event.event_id for event in parse(Mode.PLAIN, body, {"idempotency-key": key})]

    first = ids(b"{%b,%%b}" % prefix, "k")
    assert first == ids(b"{ %%b, %b }" % prefix, "k")
    assert first[-1] == "evt-1"
    assert len({*first, *ids(b"{%b,%%b}" % prefix, "other")}) == 9
