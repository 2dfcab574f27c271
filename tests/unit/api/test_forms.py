"""Texts in the bodies of requests."""

import pytest
from pydantic import ValidationError

from hookwright_api.console.form_fields import Form
from hookwright_crds.documents.webhook_bodies import WebhookPatch, WebhookRequest
from hookwright_runtime.problems import ProblemError


@pytest.mark.parametrize("text", ["a\0b", "\x1b[31mred", "right\u202eleft", "a\rb"])
def test_a_description_has_no_control_characters(text: str) -> None:
    """They would change the terminal of a person who lists endpoints."""
    for validate in (
        lambda: WebhookPatch(description=text),
        lambda: WebhookRequest(url="https://example.com/", events=("delivered",), description=text),
    ):
        with pytest.raises(ValidationError, match="must have only printable characters, tabs and line feeds"):
            validate()


def test_a_description_has_several_lines() -> None:
    """It is a text for people, in any language."""
    assert WebhookPatch(description="Größe\n\t日本").description == "Größe\n\t日本"
    assert WebhookPatch(description="").description == ""


def test_a_text_area_has_a_bounded_number_of_lines() -> None:
    """JSON has a bound of values for the same reason: 41,000 labels took 0.36 s of the event loop."""
    assert len(Form({"labels": ["\n".join(f"a{number}=x" for number in range(500))]}).pairs("labels")) == 500
    with pytest.raises(ProblemError) as error:
        Form({"labels": ["a\n" * 501]}).pairs("labels")
    assert [(fault.field, fault.message) for fault in error.value.errors] == [("labels", "must have at most 500 lines")]
