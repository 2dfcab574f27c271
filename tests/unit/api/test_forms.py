"""Texts in the bodies of requests."""

import pytest
from pydantic import ValidationError

from hookwright_api.schemas.webhook_bodies import WebhookPatch, WebhookRequest


@pytest.mark.parametrize("text", ["a\0b", "\x1b[31mred", "right\u202eleft", "a\rb"])
def test_a_description_has_no_control_characters(text: str) -> None:
    """They would change the terminal of a person who lists endpoints."""
    for made in (
        lambda: WebhookPatch(description=text),
        lambda: WebhookRequest(url="https://example.com/", events=("delivered",), description=text),
    ):
        with pytest.raises(ValidationError, match="must have only printable characters, tabs and line feeds"):
            made()


def test_a_description_has_several_lines() -> None:
    """It is a text for people, in any language."""
    assert WebhookPatch(description="Größe\n\t日本").description == "Größe\n\t日本"
    assert WebhookPatch(description="").description == ""
