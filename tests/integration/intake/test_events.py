"""The events route over real HTTP: accepted and refused requests, and their answers."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from support.api_processes import problem_of
from support.dispatcher import locked
from support.intake import Intake, Tokens, fails
from support.polling import PATIENCE, until
from support.store_factories import held

from hookwright_operator.services.events import Events
from hookwright_operator.store.sql import read

EVENT = {"id": "e-1", "type": "delivered", "messageId": "m-1"}
ROUTE = "/projects/billing/events"


async def test_an_accepted_event_is_answered_202_with_counts(intake: Intake, tokens: Tokens) -> None:
    """The answer counts events, duplicates and deliveries, and has the id of each event; a repetition has the first."""
    first = await intake.client.post(ROUTE, json=EVENT)
    again = await intake.client.post(ROUTE, json=[EVENT, {**EVENT, "id": "e-2"}])
    assert (first.status_code, again.status_code) == (202, 202)
    document, (repetitions, new) = first.json()["event_ids"], again.json()["event_ids"]
    assert first.json() == {"accepted": 1, "duplicates": 0, "deliveries": 1, "event_ids": document}
    assert again.json() == {"accepted": 1, "duplicates": 1, "deliveries": 1, "event_ids": [repetitions, new]}
    assert [repetitions] == document
    (_, record), _ = await intake.engine.store.read_log(read.log, intake.orders.uid)
    assert record.event_id == repetitions
    body = b'{"type":"delivered","messageId":"m-1","id":"%s"}'
    assert await intake.events() == [
        (tokens.namespace, "billing", "e-1", body.replace(b"%s", b"e-1")),
        (tokens.namespace, "billing", "e-2", body.replace(b"%s", b"e-2")),
    ]
    assert "server" not in first.headers


async def test_every_cloudevents_mode_is_accepted(intake: Intake) -> None:
    """Binary, structured and batched content result in the same bytes."""
    intake.registry.put(replace(intake.orders, events=frozenset({"wa_sent"})))
    common = {"specversion": "1.0", "source": "/m", "type": "dev.hookwright.wa_sent"}
    data = {"messageId": "m"}
    binary = {f"ce-{name}": value for name, value in common.items()}
    requests: list[tuple[dict[str, str], object]] = [
        ({"content-type": "application/json", "ce-id": "e-0", **binary}, data),
        ({"content-type": "application/cloudevents+json"}, {**common, "id": "e-1", "data": data}),
        ({"content-type": "application/cloudevents-batch+json"}, [{**common, "id": "e-2", "data": data}]),
    ]
    for headers, body in requests:
        answer = await intake.client.post(ROUTE, content=json.dumps(body), headers=headers)
        assert answer.status_code == 202, answer.text
    records = await intake.events()
    assert [body for *_, body in records] == [b'{"type":"wa_sent","messageId":"m"}'] * 3
    assert [event_id for _, _, event_id, _ in records] == ["/m\ne-0", "/m\ne-1", "/m\ne-2"]


async def test_an_id_with_other_content_is_a_409_that_names_the_event(intake: Intake) -> None:
    """Nothing of the request is accepted; the order of fields is no other content."""
    await intake.client.post(ROUTE, json=EVENT)
    second = {**EVENT, "amount": 5}
    alone = problem_of(await intake.client.post(ROUTE, json=second), 409)
    listed = problem_of(await intake.client.post(ROUTE, json=[{**EVENT, "id": "e-2"}, second]), 409)
    within = problem_of(await intake.client.post(ROUTE, json=[{**EVENT, "id": "e-3"}, {**second, "id": "e-3"}]), 409)
    assert [fault["field"] for problem in (alone, listed, within) for fault in problem["errors"]] == [
        "id", "[1].id", "[1].id",
    ]  # fmt: skip
    assert "with other content" in alone["detail"]
    assert len(await intake.events()) == 1
    answer = await intake.client.post(ROUTE, json=dict(reversed(EVENT.items())))
    assert answer.json()["duplicates"] == 1


async def test_refused_events_leave_their_places_free(intake: Intake) -> None:
    """A conflict frees the reserved places of the endpoint queue."""
    intake.registry.put(replace(intake.orders, suspend=False))
    await intake.client.post(ROUTE, json=EVENT)
    for _ in range(3):
        conflicting = [{**EVENT, "id": f"n-{number}"} for number in range(200)] + [{**EVENT, "amount": 5}]
        problem_of(await intake.client.post(ROUTE, json=conflicting), 409)
    await until(lambda: asyncio.sleep(0, intake.engine.at_rest))
    queues = intake.engine.dispatcher.queues
    assert queues.by_uid[intake.orders.uid].reserved == 0
    assert queues.memory.used_by(intake.orders.namespace) == 0


async def test_a_conflict_of_a_large_request_is_a_409(intake: Intake) -> None:
    """A request of more than 1,000 deliveries is compared in the same way."""
    for number in range(8):
        intake.registry.put(replace(intake.orders, uid=f"uid-{number}", name=f"orders-{number}"))
    await intake.client.post(ROUTE, json=EVENT)
    many = [{**EVENT, "id": f"e-{number}"} for number in range(200)]
    problem_of(await intake.client.post(ROUTE, json=[*many, {**EVENT, "amount": 5}]), 409)
    assert len(await intake.events()) == 1
    document = (await intake.client.post(ROUTE, json=many)).json()
    assert (document["accepted"], document["duplicates"], len(set(document["event_ids"]))) == (199, 1, 200)


async def test_a_wrong_body_is_refused_whole_and_nothing_is_written(intake: Intake) -> None:
    """One fault refuses the whole batch, and the answer names it by its index; the unit tests have every fault."""
    bodies = [
        (b"[" * 100_000, 400, None),
        (json.dumps([EVENT, {"type": "delivered"}]).encode(), 422, ["[1].messageId"]),
        (b'{"type":"delivered","messageId":"m","pad":"' + b"x" * 300 * 1024 + b'"}', 413, [""]),
        (b" " * (4 * 1024 * 1024), 413, None),
    ]
    for body, status, fields in bodies:
        answer = await intake.client.post(ROUTE, content=body, headers={"content-type": "application/json"})
        problem = problem_of(answer, status)
        assert fields is None or [fault["field"] for fault in problem["errors"]] == fields
    answer = await intake.client.post(ROUTE, content=b"a=1", headers={"content-type": "text/csv"})
    assert "application/cloudevents+json" in problem_of(answer, 415)["detail"]
    assert await intake.events() == []


async def test_an_unknown_project_is_404(intake: Intake) -> None:
    """A sender with the RBAC permission gets the 404 as well."""
    problem_of(await intake.client.post("/projects/ghost/events", json=EVENT), 404)
    assert await intake.events() == []


async def test_the_order_of_refusals_tells_a_stranger_nothing(intake: Intake, tokens: Tokens) -> None:
    """The order is 401, 403, 404, and only then faults of the body."""
    stranger = {"Authorization": f"Bearer {tokens.stranger}"}
    answers = [
        await intake.client.post(path, content=b"{", headers={"content-type": "x/y", **headers})
        for path, headers in [
            ("/projects/ghost/events", {"Authorization": "Bearer wrong"}),
            ("/projects/ghost/events", stranger),
            ("/projects/ghost/events", {}),
            (ROUTE, {}),
        ]
    ]
    assert [answer.status_code for answer in answers] == [401, 403, 404, 415]


async def test_reading_stops_at_the_limit_of_a_body_without_length(intake: Intake, tokens: Tokens) -> None:
    """An endless body is refused at the limit, and the connection is closed soon after."""
    reader, writer = await open_request(intake, tokens, "Transfer-Encoding: chunked")
    piece = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
    await pour(writer, piece, times=17)
    assert (await reader.readline()).split()[1] == b"413"
    with pytest.raises(ConnectionError):
        await pour(writer, piece, times=1_000_000)
    writer.close()


async def test_a_declared_length_beyond_the_limit_is_refused_unread(intake: Intake, tokens: Tokens) -> None:
    """The answer is 413 before any byte of the body is sent."""
    reader, writer = await open_request(intake, tokens, f"Content-Length: {2**40}")
    assert (await reader.readline()).split()[1] == b"413"
    writer.close()


async def test_a_dripping_body_is_cut_off(intake: Intake, tokens: Tokens) -> None:
    """A client that sends one byte at a time cannot occupy a place without end."""
    reader, writer = await open_request(intake, tokens, "Content-Length: 1000")
    answer = asyncio.create_task(reader.readline())
    for _ in range(100):
        writer.write(b" ")
        if (await asyncio.wait({answer}, timeout=0.05))[0]:
            break
    assert (await answer).split()[1] == b"408"
    assert await intake.events() == []
    writer.close()


async def test_a_client_that_hangs_up_half_way_leaves_nothing(intake: Intake, tokens: Tokens) -> None:
    """No event is stored, and the next request is served."""
    _, writer = await open_request(intake, tokens, "Content-Length: 100")
    writer.write(b"{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await intake.client.post(ROUTE, json=EVENT)).status_code == 202
    assert len(await intake.events()) == 1


async def pour(writer: asyncio.StreamWriter, piece: bytes, *, times: int) -> None:
    """Send a piece repeatedly."""
    for _ in range(times):
        writer.write(piece)
        await writer.drain()


async def open_request(
    intake: Intake, tokens: Tokens, length: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a request whose body is not yet sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", intake.server.port)
    writer.write(
        f"POST /v1alpha1/namespaces/{tokens.namespace}{ROUTE} HTTP/1.1\r\nHost: intake\r\n"
        f"Authorization: Bearer {tokens.sender}\r\nContent-Type: application/json\r\n{length}\r\n\r\n".encode()
    )
    return reader, writer


async def test_a_store_that_is_away_is_503_with_retry_after(intake: Intake) -> None:
    """The answer is never a 202 for an event that could be lost."""
    async with locked(intake.database):
        answer = await intake.client.post(ROUTE, json=EVENT)
    problem_of(answer, 503)
    assert int(answer.headers["retry-after"]) > 0
    assert await intake.events() == []


async def test_an_unexpected_fault_is_500_with_a_trace_and_leaks_nothing(
    intake: Intake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer and the log have the same id; only the log has details."""
    monkeypatch.setattr(Events, "accept", fails)
    answer = await intake.client.post(ROUTE, json=EVENT)
    assert problem_of(answer, 500)["trace_id"] == "request-1"
    assert "secret" not in answer.text
    output = capsys.readouterr().out
    assert "request-1" in output
    assert "ZeroDivisionError" in output


async def test_an_intake_that_is_not_ready_answers_503_on_every_route(intake: Intake) -> None:
    """The answer has the reason, and the request is not checked further."""
    intake.unready = "the store is being migrated"
    for path in (ROUTE, "/webhookendpoints/orders/secret", "/nowhere"):
        answer = await intake.client.post(path, json=EVENT)
        assert "being migrated" in problem_of(answer, 503)["detail"]
        assert int(answer.headers["retry-after"]) > 0


async def test_too_many_requests_at_once_are_sent_away(intake: Intake) -> None:
    """Of 8 places one namespace gets 2, and further requests get a 429 and can retry, so memory is bounded."""
    async with held(intake.engine.store, ""):
        requests = [asyncio.create_task(intake.client.post(ROUTE, json=EVENT)) for _ in range(8)]
        sent_away = [await answer for answer in itertools.islice(asyncio.as_completed(requests), 6)]
        assert {answer.status_code for answer in sent_away} == {429}
        assert all(int(answer.headers["retry-after"]) > 0 for answer in sent_away)
    answers = await asyncio.gather(*requests)
    assert sorted(answer.status_code for answer in answers) == [202] * 2 + [429] * 6
    assert (await intake.client.post(ROUTE, json=EVENT)).status_code == 202


async def test_unknown_paths_and_methods_are_problems_too(intake: Intake) -> None:
    """The answers are 404 and 405; a 405 has the header Allow."""
    assert "no such route" in problem_of(await intake.client.get("/nowhere"), 404)["detail"]
    problem_of(await intake.client.post(f"{ROUTE}/", json=EVENT), 404)
    answer = await intake.client.get(ROUTE)
    assert problem_of(answer, 405)["detail"] == f"{answer.url.path} does not accept GET"
    assert answer.headers["allow"] == "POST"


async def test_stopping_lets_a_request_under_way_finish(intake: Intake) -> None:
    """An accepted request is answered, although no new one is accepted."""
    half, rest = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"type":"delivered",'
        half.set()
        await rest.wait()
        yield b'"messageId":"m"}'

    headers = {"content-type": "application/json"}
    await intake.client.post(ROUTE, json=EVENT)
    request = asyncio.create_task(intake.client.post(ROUTE, content=body(), headers=headers))
    await half.wait()
    stopping = asyncio.create_task(intake.server.stop())
    async with asyncio.timeout(PATIENCE):
        while True:
            if not await _connects(intake.server.port):
                break
            await asyncio.sleep(0.02)
        rest.set()
        assert (await request).status_code == 202
        await stopping


async def _connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
