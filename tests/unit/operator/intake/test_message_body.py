"""The bodies that settle messages."""

import json

import pytest

from hookwright_operator.intake.message_body import settle_body
from hookwright_runtime.problems import ProblemError


def test_an_answer_names_a_bounded_number_of_unknown_names() -> None:
    """The answer to a thousand unknown names stays small, and shows the beginning of a long name."""
    body = json.dumps({"x" * 1000: 1, **{str(number): 1 for number in range(1_000)}}).encode()
    with pytest.raises(ProblemError) as caught:
        settle_body(body, refuses=True)
    assert caught.value.status == 422
    assert len(caught.value.errors) == 50
    assert caught.value.errors[0].field == "x" * 64


def test_unknown_names_hide_no_other_fault() -> None:
    """A fault of a known field is named after the unknown names."""
    with pytest.raises(ProblemError) as caught:
        settle_body(b'{"other":1,"delay":"1s"}', refuses=False)
    assert [fault.field for fault in caught.value.errors] == ["other", "delay", "ids"]
