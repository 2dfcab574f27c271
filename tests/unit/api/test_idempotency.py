"""Names and ids that are derived from an Idempotency-Key."""

from datetime import UTC, datetime, timedelta

import pytest

from hookwright_api.idempotency import (
    REQUEST_ANNOTATION,
    check_key,
    check_same,
    derived_id,
    expired,
    request_digest,
)
from hookwright_runtime.problems import ProblemError


def test_derived_ids_are_lower_case_names_without_visible_order() -> None:
    """Derived ids are valid names of Kubernetes objects."""
    ids = {derived_id(12, "a", str(number)) for number in range(1000)}
    assert len(ids) == 1000
    assert all(len(item) == 12 and item.isalnum() and item == item.lower() for item in ids)


@pytest.mark.parametrize("written", ["", " a", "a ", "\u00e4", "a" * 256, "a\nb"])
def test_a_key_that_is_no_printable_text_is_refused(written: str) -> None:
    """The answer is a 422 that names the header."""
    with pytest.raises(ProblemError) as error:
        check_key(written)
    assert error.value.status == 422


def test_a_key_is_taken_as_it_is() -> None:
    """UUIDs and all other printable texts are accepted."""
    assert check_key("8e03978e-40d5 x") == "8e03978e-40d5 x"
    assert check_key(None) is None


def test_another_request_with_the_same_key_is_refused() -> None:
    """The created object has the digest of the request."""
    digest = request_digest({"a": 1, "b": 2})
    check_same({REQUEST_ANNOTATION: digest}, request_digest({"b": 2, "a": 1}))
    with pytest.raises(ProblemError):
        check_same({REQUEST_ANNOTATION: digest}, request_digest({"a": 1}))
    with pytest.raises(ProblemError):
        check_same({}, digest)


def test_a_key_is_good_for_a_day() -> None:
    """A key expires after a day, to the second."""
    creation_time = datetime(2026, 1, 1, tzinfo=UTC)
    assert not expired(creation_time, creation_time + timedelta(hours=24, seconds=-1))
    assert expired(creation_time, creation_time + timedelta(hours=24))
