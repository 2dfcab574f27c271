"""Pure: which errors of the API server are refusals by a rule of the cluster, and what may be shown of them."""

import base64
import re
from typing import Final

from hookwright_operator.reconcile.plan import CreateSecret, Plan, UpdateSecret
from hookwright_runtime.errors import KubeError, KubeUnavailable

_SHOWN_CHARACTERS: Final = 500
_MISSING_RIGHT: Final = re.compile(r"cannot (create|patch|update|delete|get) resource")
_WEBHOOK: Final = "failed calling webhook"
"""In the message of an admission webhook that gives no answer."""


def is_refusal(error: KubeError) -> bool:
    """Return whether the API server refused a write, and will refuse it again until somebody changes something.

    A conflict or a missing object ends with the next plan.
    """
    if isinstance(error, KubeUnavailable):
        return _WEBHOOK in error.explanation
    return error.status in (400, 403, 405, 406, 413, 422)


def is_missing_right(error: KubeError) -> bool:
    """Return whether RBAC refused the write; an administrator of the installation must correct this, not the tenant."""
    return _MISSING_RIGHT.search(error.explanation) is not None


def without_secrets(explanation: str, plan: Plan) -> str:
    """Return the API server's message without the secrets that the plan writes.

    An admission webhook may repeat the object that it refuses.
    """
    for action in plan.actions:
        if isinstance(action, CreateSecret | UpdateSecret):
            for text in filter(None, action.secret.fields.values()):
                for form in (text, base64.b64encode(text.encode()).decode()):
                    explanation = explanation.replace(form, "[secret]")
    return explanation


def shortened(explanation: str) -> str:
    """Return the beginning of a message, as long as a condition shows it."""
    return explanation if len(explanation) <= _SHOWN_CHARACTERS else f"{explanation[:_SHOWN_CHARACTERS]}…"
