"""Examples of successful answers in the OpenAPI description, with placeholders for secrets.

A test compares the names of their fields with the answers of the running service.

The catalogue of event types has none, because Spectral reports its field ``example`` as a fault of the description.
"""

import json
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("openapi_examples.json")
"""By ``<operationId> <status>``: an answer, or the name of the entry that has the same answer."""


def examples() -> dict[str, Any]:
    """Return the example of each successful answer with a body, by ``<operationId> <status>``."""
    answers: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: answers[answer] if isinstance(answer, str) else answer for name, answer in answers.items()}
