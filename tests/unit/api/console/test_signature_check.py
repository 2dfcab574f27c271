"""The check of a pasted request."""

import pytest

from hookwright_api.console.signature_check import age_sentence, check_signatures, pasted_headers
from hookwright_operator.delivery.http.signatures import new_secret, signature_headers

SECRET = new_secret(lambda count: b"s" * count)
OTHER = new_secret(lambda count: b"o" * count)
BODY = '{"type":"delivered","note":"Åda"}'


def checked(body: str, *, secret: str = SECRET, signed_by: tuple[str, ...] = (SECRET,), sent: str = BODY) -> list[str]:
    """Return the states for both headers of a request that these secrets signed."""
    headers = {
        name.lower(): value for name, value in signature_headers(signed_by, "msg_1", 1000, sent.encode()).items()
    }
    return [check.state for check in check_signatures(secret, headers, body)]


def test_a_real_request_matches() -> None:
    """Both headers are checked against the present secret, also during a rotation."""
    assert checked(BODY) == ["good", "good"]
    assert checked(BODY, signed_by=(OTHER, SECRET)) == ["good", "good"]
    assert checked(BODY, secret="another sender's", signed_by=("another sender's",)) == ["good", "good"]


def test_the_header_that_a_replaced_secret_makes_is_not_called_wrong() -> None:
    """During an overlap X-Service-Signature is of a secret that the page does not have; the sentence names the end."""
    headers = {name.lower(): value for name, value in signature_headers([SECRET, OTHER], "m", 1, BODY.encode()).items()}
    until = "2026-02-01T12:00:00Z"
    standard, service = check_signatures(SECRET, headers, BODY, previous_until=until)
    assert (standard.state, service.state, until in service.sentence) == ("good", "unknown", True)
    assert check_signatures(SECRET, headers, BODY)[1].state == "bad"


def test_another_secret_and_another_body_do_not_match() -> None:
    """Every other character counts, spaces too."""
    assert checked(BODY, secret=OTHER) == ["bad", "bad"]
    assert checked(BODY.replace("Åda", "Ada")) == ["bad", "bad"]
    assert checked(BODY.replace(":", ": ")) == ["bad", "bad"]


@pytest.mark.parametrize("sent", ["a\nb", "a\r\nb", "a\nb\n", "a\r\nb\r\n"])
def test_ends_of_lines_that_a_browser_changes_are_found(sent: str) -> None:
    """A form sends CRLF for each end of line, and a copied body often has one too many or lacks the last one."""
    assert checked("a\r\nb", sent=sent) == (["good", "good"] if sent != "a\r\nb\r\n" else ["bad", "bad"])
    assert checked(sent.replace("\r\n", "\n").replace("\n", "\r\n"), sent=sent) == ["good", "good"]


def test_a_difference_at_the_end_is_named() -> None:
    """The person learns what differs."""
    headers = {name.lower(): value for name, value in signature_headers([SECRET], "msg_1", 1000, BODY.encode()).items()}
    standard, service = check_signatures(SECRET, headers, BODY + "\r\n")
    assert "empty line" in standard.sentence
    assert "empty line" in service.sentence


def test_missing_headers_are_named() -> None:
    """A signature without its id and time cannot be checked."""
    assert [check.state for check in check_signatures(SECRET, {}, BODY)] == ["absent", "absent"]
    standard, _ = check_signatures(SECRET, {"webhook-signature": "v1,abc"}, BODY)
    assert (standard.state, "webhook-id" in standard.sentence) == ("bad", True)


def test_headers_are_read_as_people_copy_them() -> None:
    """From a log, from a browser's tools or as JSON; the first of two equal names counts."""
    text = 'POST /hooks HTTP/1.1\r\nWebhook-Id: msg_1\r\n "webhook-timestamp": "12",\nwebhook-id: other\nno colon'
    assert pasted_headers(text) == {"webhook-id": "msg_1", "webhook-timestamp": "12"}


@pytest.mark.parametrize("values", ["é", "v1, v1,,", "v1," * 1000])
def test_strange_values_do_not_match(values: str) -> None:
    """They are compared as bytes."""
    headers = {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": values, "x-service-signature": values}
    assert [check.state for check in check_signatures(SECRET, headers, BODY)] == ["bad", "bad"]


def test_the_age_is_told() -> None:
    """Receivers refuse old requests, which a correct signature does not change."""
    assert age_sentence({}, 1000.0) == ""
    assert age_sentence({"webhook-timestamp": "x"}, 1000.0) == ""
    assert age_sentence({"webhook-timestamp": "9" * 400}, 1000.0) == ""
    assert age_sentence({"webhook-timestamp": "990"}, 1000.0) == "It was signed 10 s ago; receivers accept it."
    assert "120 min ago. Receivers refuse it" in age_sentence({"webhook-timestamp": "1000"}, 8200.0)


def test_a_pasted_text_costs_a_bounded_number_of_comparisons() -> None:
    """A form of 256 KiB may have very many lines and signatures; a real request has few."""
    assert pasted_headers("\n" * 1000 + "webhook-id: msg_1") == {}
    good = signature_headers((SECRET,), "msg_1", 1000, BODY.encode())["webhook-signature"]
    for number, state in ((15, "good"), (16, "bad")):
        token = {"webhook-id": "msg_1", "webhook-timestamp": "1000", "webhook-signature": f"{'v1,a ' * number}{good}"}
        assert check_signatures(SECRET, token, BODY)[0].state == state
