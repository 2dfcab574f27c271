"""The page "Verify": receivers' code in seven languages, and a check of a request against the endpoint's secret."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from hookwright_api.console.page_route import action, page
from hookwright_api.console.signature_check import age_sentence, check_signatures, pasted_headers
from hookwright_api.console.visit import Visit
from hookwright_api.routes.webhook_secrets import get_secret
from hookwright_crds.permissions import READ

_VERIFY: Final = "/projects/{project}/endpoints/{endpoint}/verify"
_FOLDER: Final = Path(__file__).parents[2] / "receiver_code"


class ReceiverSample(NamedTuple):
    """A receiver in one language: its title, the name of its file, the command that starts it, and its code."""

    title: str
    file: str
    command: str

    @property
    def code(self) -> str:
        """The content of the file."""
        return (_FOLDER / self.file).read_text(encoding="utf-8")


SAMPLES: Final = {
    "python": ReceiverSample("Python", "receiver.py", "python3 receiver.py"),
    "node": ReceiverSample("Node", "receiver.mjs", "node receiver.mjs"),
    "go": ReceiverSample("Go", "receiver.go", "go run receiver.go"),
    "php": ReceiverSample("PHP", "receiver.php", "php -S 127.0.0.1:8080 receiver.php"),
    "ruby": ReceiverSample("Ruby", "receiver.rb", "ruby receiver.rb"),
    "java": ReceiverSample("Java", "Receiver.java", "java Receiver.java"),
    "shell": ReceiverSample("Shell", "receiver.sh", ""),
}
"""By language, as in URLs; the first is shown first."""


@page(_VERIFY, permission=READ)
async def show_receiver_code(visit: Visit) -> Response:
    """Show the code of a language, and the form for a request."""
    return _page(visit)


def _page(visit: Visit, **result: Any) -> Response:
    language = visit.query.get("language", "")
    language = language if language in SAMPLES else next(iter(SAMPLES))
    result = {"verdicts": None, "age": "", **result}
    return visit.render("verify.html", samples=SAMPLES, language=language, chosen=SAMPLES[language], **result)


@action(_VERIFY, uses=(get_secret,), again=show_receiver_code)
async def check_request(visit: Visit) -> Response:
    """Check pasted headers and a body; nothing of them is stored or logged, and the audit log has the secret's read."""
    answer = await visit.call_endpoint(get_secret)
    headers, until = pasted_headers(visit.form.raw("headers")), answer["previous_signs_until"]
    verdicts = check_signatures(answer["secret"], headers, visit.form.raw("body"), previous_until=until)
    return _page(visit, verdicts=verdicts, age=age_sentence(headers, visit.services.now().timestamp()))
