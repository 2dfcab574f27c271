"""The receivers' code that the page "Verify" shows, from the files of ``receiver_code/``."""

from pathlib import Path
from typing import Final, NamedTuple

_FOLDER: Final = Path(__file__).parents[1] / "receiver_code"


class ReceiverSample(NamedTuple):
    """A receiver in one language.

    Attributes:
        language: in URLs.
        title: for people.
        file: name of the file.
        command: that starts it on a machine with its language.
        code: content of the file.
    """

    language: str
    title: str
    file: str
    command: str
    code: str


def _sample(language: str, title: str, file: str, command: str) -> ReceiverSample:
    return ReceiverSample(language, title, file, command, (_FOLDER / file).read_text(encoding="utf-8"))


SAMPLES: Final = {
    one.language: one
    for one in (
        _sample("python", "Python", "receiver.py", "python3 receiver.py"),
        _sample("node", "Node", "receiver.mjs", "node receiver.mjs"),
        _sample("go", "Go", "receiver.go", "go run receiver.go"),
        _sample("php", "PHP", "receiver.php", "php -S 127.0.0.1:8080 receiver.php"),
        _sample("ruby", "Ruby", "receiver.rb", "ruby receiver.rb"),
        _sample("java", "Java", "Receiver.java", "java Receiver.java"),
        _sample("shell", "Shell", "receiver.sh", ""),
    )
}
"""By language; the first is shown first."""
