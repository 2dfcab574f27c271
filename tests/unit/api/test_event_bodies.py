"""The answer to a producer."""

import json

import pytest

from hookwright_api.schemas.event_bodies import with_event_ids_twin


@pytest.mark.parametrize("ids", [["msg_A"], ["msg_A", "msg_B"], []])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_ids_have_both_names(ids: list[str], separators: tuple[str, str]) -> None:
    """`event_ids` comes before `eventIds`, and every other field stays."""
    counts = {"accepted": 2, "duplicates": 0, "deliveries": 2}
    answered = json.dumps({**counts, "eventIds": ids, "later": [1]}, separators=separators).encode()
    expected = [*counts.items(), ("event_ids", ids), ("eventIds", ids), ("later", [1])]
    assert list(json.loads(with_event_ids_twin(answered)).items()) == expected


def test_an_answer_without_ids_stays() -> None:
    """An operator may answer without ids; its answer is forwarded unchanged."""
    assert with_event_ids_twin(b'{"accepted":1}') == b'{"accepted":1}'
