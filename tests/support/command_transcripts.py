"""Transcripts of commands of ``hookwright``: the commands, what they print and their exit codes.

Values that differ in each run, such as ids and times, are replaced by words. ``HOOKWRIGHT_GOLDEN=write`` writes the
files of `tests/cli/golden` anew.
"""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner, Result

from hookwright_cli.command_line import app

GOLDEN = Path(__file__).parents[1] / "cli" / "golden"
_REPLACED = (
    (r"\b(dlv|msg|rec|test)_[0-9A-Z]{26}\b", r"\1_ID"),
    (r"\bwh-[a-z0-9]{12}\b", "wh-ID"),
    (r"\buser-[0-9a-f]{20}\b", "user-ID"),
    (r"hw_[a-z0-9]{12}_[0-9A-Za-z]{49}", "KEY"),
    (r"whsec_[0-9A-Za-z+/]{20,}=*", "SECRET"),
    (r"v1,[0-9A-Za-z+/]{43}=", "v1,SIGNATURE"),
    (r"\b[0-9a-f]{64}\b", "SIGNATURE"),
    (r"\$argon2id\$\S+", "HASH"),
    (r"\bcli-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "cli-ID"),
    (r"webhook-timestamp: \d+", "webhook-timestamp: NUMBER"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"http://127\.0\.0\.1:\d+/orders", "http://RECEIVER/orders"),
    (r"^Host: 127\.0\.0\.1:\d+", "Host: RECEIVER"),
    (r'("?duration_ms"?: )\d+', r"\1NUMBER"),
    (r"^((?!Timeout|\$).*\s\s)\d+[smhd]$", r"\1AGE"),
    (r"^(\d+ +TIME +)\d+", r"\1NUMBER"),
    (r"(HTTP 200 +)\d+( +- )", r"\1NUMBER\2"),
    (r"\d+ delivered, \d+ failed, \d+ failed", "NUMBER delivered, NUMBER failed, NUMBER failed"),
)


def normalised(text: str) -> str:
    """Return a text without the values that differ in each run, and without the padding of columns."""
    for pattern, word in _REPLACED:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return re.sub(r"(?<=\S) {2,}", "  ", text)


@dataclass(slots=True)
class Transcript:
    """Commands that run in this process, one after another.

    Attributes:
        environment: the variables of the commands, instead of those of this process.
        replacing: texts of this run, such as the name of a namespace, and their words.
    """

    environment: dict[str, str | None]
    replacing: dict[str, str] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)

    def run(self, *arguments: str, stdin: str = "") -> Result:
        """Run a command and add it to the transcript."""
        result = self.quiet(*arguments, stdin=stdin)
        code = f"[exit code {result.exit_code}]\n" if result.exit_code else ""
        text = f"{result.stdout}{result.stderr}{code}"
        self.parts.append(f"$ hookwright {' '.join(arguments)}\n{text}")
        return result

    def quiet(self, *arguments: str, stdin: str = "") -> Result:
        """Run a command without a place in the transcript."""
        result = CliRunner(env=self.environment).invoke(app, arguments, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def check(self, name: str) -> None:
        """Compare the transcript with its golden file, or write it."""
        text = "\n".join(self.parts)
        text = normalised(text)
        for item, word in self.replacing.items():
            text = text.replace(item, word)
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("HOOKWRIGHT_GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        golden = path.read_text(encoding="utf-8")
        difference = difflib.unified_diff(golden.splitlines(), text.splitlines(), path.name, "now", lineterm="")
        assert text == golden, "\n".join(difference)
