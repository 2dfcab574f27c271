"""Commands of the documentation: found in a page, and run as they are printed."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.local_kubelet import described

from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.tools import HELM, acquire_tool

DOCS: Final = ROOT / "docs"
PROGRAM: Final = Path(__file__).with_name("node_commands.py")
PREAMBLE: Final = """set -euo pipefail
grep() { command grep "$@" || [ $? -eq 1 ]; }  # a log without such a line is no fault of the command
kubectl() { command kubectl "$@" || [ $? -eq 9 ]; }  # the exit code of a negative answer, such as a problem in status
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"""
_FENCE: Final = re.compile(r"^```sh[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`((?:kubectl|helm|curl|hookwright) [^`]+)`")
_MARK: Final = "----- end of the block -----"
SETTLED: Final = """until kubectl get pods -n hookwright-system -o json | jq -e '.items | length > 1 and all(
  .metadata.deletionTimestamp == null and any(.status.conditions[]?; .type == "Ready" and .status == "True")
)' >/dev/null; do sleep 0.5; done"""
"""Wait until every pod is Ready and none is being deleted, because a command before may have restarted one."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page with its commands."""

    page: str
    title: str
    blocks: tuple[str, ...]
    inline: tuple[str, ...]

    @property
    def name(self) -> str:
        """The page and the title."""
        return f"{self.page}: {self.title}" if self.title else self.page


def sections(page: str) -> list[Section]:
    """Return the sections of a page, headed by ``##``; the first one has the text before them."""
    parts = re.split(r"^## (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    titles = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return [
        Section(page, title, tuple(_FENCE.findall(text)), tuple(_complete(_INLINE.findall(_FENCE.sub("", text)))))
        for title, text in titles
    ]


def section(page: str, title: str) -> Section:
    """Return one section of a page."""
    (matches,) = [part for part in sections(page) if part.title == title]
    return matches


def _complete(commands: list[str]) -> list[str]:
    """Return the inline commands that can be run.

    Two words only name a command. ``helm test`` starts a pod from the image; tests/chart runs its program.
    """
    return [command for command in commands if len(command.split()) > 2 and not command.startswith("helm test")]


def notes_commands(notes: str) -> list[str]:
    """Return the paragraphs of helm's notes that are commands, as a reader copies them."""
    return [part for part in re.split(r"\n\s*\n", notes) if part.lstrip().startswith(("kubectl", "hookwright"))]


@dataclass(frozen=True, slots=True)
class Example:
    """A block of commands, and the answer that the page shows below it, if any."""

    commands: str
    answer: Any | None


def examples(page: str) -> list[Example]:
    """Return the blocks of a page with their answers, in the page's order."""
    text = (DOCS / page).read_text()
    matches = re.findall(r"^```(sh|json)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    pairs = []
    for (kind, block), (following, answer) in zip(matches, [*matches[1:], ("", "")], strict=True):
        if kind == "sh":
            pairs.append(Example(block, json.loads(answer) if following == "json" else None))
    return pairs


def shape(value: Any) -> Any:
    """Return the form of an answer: the fields with their kinds, and the form of a list's first element."""
    match value:
        case dict():
            return {name: shape(inner) for name, inner in value.items()}
        case list():
            return [shape(inner) for inner in value[:1]]
        case bool() | None:
            return value
        case int():
            return "number"
        case _:
            return "text"


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster without nodes on which commands of pages run.

    Attributes:
        folder: the working directory of the commands, with the chart and the manifests of the checkout.
    """

    plane: ControlPlane
    operator: OperatorProcess
    api: ApiProcess
    folder: Path

    def prepare(self) -> None:
        """Write the programs that the commands find on their PATH."""
        programs = self.folder / "bin"
        programs.mkdir(parents=True)
        (self.folder / "forwards").mkdir()
        for name in ("charts", "examples"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "stage.json").write_text(json.dumps(self._described()))
        for name in ("kubectl", "curl", "hookwright"):
            line = f'exec {sys.executable} {PROGRAM} {self.folder / "stage.json"} {name} "$@"'
            if name == "kubectl":
                # Most commands need nothing but the real kubectl, and the start of Python takes as long as it.
                line = f'case " $* " in *" port-forward "* | *" top "*) {line} ;; esac'
                line += f'\nexec {self.plane.kubectl_path} "$@"'
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        (programs / "helm").symlink_to(acquire_tool(HELM))
        (programs / "kubectl-hookwright").symlink_to(Path(sys.executable).with_name("kubectl-hookwright"))

    def run(self, *blocks: str, stdin: str = "", timeout: float = 150) -> subprocess.CompletedProcess[str]:
        """Run blocks in one shell, and return the finished process."""
        for forward in (self.folder / "forwards").iterdir():
            forward.unlink()
        shutil.rmtree(self.folder / "config", ignore_errors=True)
        return subprocess.run(
            ["bash", "-c", PREAMBLE + "\n".join(blocks)],
            input=stdin,
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def follow(self, *blocks: str, stdin: str = "", timeout: float = 150) -> str:
        """Run blocks, fail if one of their commands fails, and return the output."""
        result = self.run(*blocks, stdin=stdin, timeout=timeout)
        text = "\n".join([*blocks, f"ended with status {result.returncode}:", result.stdout, result.stderr])
        assert result.returncode == 0, text
        return result.stdout + result.stderr

    def settle(self) -> None:
        """Wait until every pod is Ready and none is being deleted."""
        self.follow(SETTLED)

    def check_answers(self, page: str, *, replacing: tuple[str, str] = ("", "")) -> None:
        """Run all blocks of a page in one shell, and compare the form of each answer with the page's.

        Args:
            page: the page.
            replacing: a text of the page and the text that replaces it, such as the URL of a receiver.
        """
        shown_examples = examples(page)
        result = self.run(
            *(f"{example.commands.replace(*replacing)}\necho; echo {_MARK}" for example in shown_examples)
        )
        assert result.returncode == 0, result.stdout + result.stderr
        for example, text in zip(shown_examples, result.stdout.split(_MARK), strict=False):
            if example.answer is not None:
                assert shape(json.loads(text)) == shape(example.answer), f"{example.commands}\n{text}"

    def environment(self) -> dict[str, str]:
        """Return the variables of the shell."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("HOOKWRIGHT_")}
        return {
            **variables,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "KUBE_EDITOR": "true",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "HOOKWRIGHT_KEYRING": "off",
            "GOGC": "400",  # a third less CPU for helm
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }

    def _described(self) -> dict[str, Any]:
        return {
            "kubectl": str(self.plane.kubectl_path),
            "curl": shutil.which("curl"),
            "bin": str(Path(sys.executable).parent),
            "forwards": str(self.folder / "forwards"),
            "operator": described(self.operator),
            "api": described(self.api),
        }
