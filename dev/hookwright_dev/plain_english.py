"""Count idioms that slow a reader down, in docstrings, comments, messages and documentation.

Usage: ``python -m hookwright_dev.plain_english [--list N] [PATH ...]``

The report has one line for each folder: hits per 1,000 words. A rate above `MAX_FOLDER` or `MAX_TOTAL` makes the exit
code 1, and so do more words in the guides than `MAX_GUIDE_WORDS`.
Only files that git tracks are counted. The count is a proxy: a text without hits can still be hard to read.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MAX_FOLDER = 2.0
MAX_TOTAL = 1.0
# Of docs/*.md, as `wc -w` counts them, without the pages that the site's navigation does not have either.
MAX_GUIDE_WORDS = 42_200
NO_GUIDES = frozenset({"pitfalls.md", "tricks.md"})
# The bound applies to a folder from this many words on: in a shorter text one hit is a high rate.
MIN_WORDS = 300
# A string argument with fewer spaces is a name or a key, not a sentence.
MIN_SPACES = 3

_FOR = "it its the they their a an this that there he we each no nobody whoever so all what one some"
_WHAT = (
    "is was are were has had came comes it they he stands waits counts changed happens became becomes goes went else "
    "their its of can could may must will would follows arrived exceeds needs began had"
)
_VAGUE = (
    r"anew mend(?:s|ed|ing)? nobody lets?\s+go makes?\s+good made\s+good made\s+undone to\s+be\s+had at\s+hand "
    r"but\s+for in\s+the\s+very stands?\s+beside lapsed obituary for\s+good so\s+that\s+none is\s+away goes\s+by "
    r"on\s+its\s+way\s+out take(?:s|n)?\s+(?:note|in|up|back) give(?:s|n)?\s+back the\s+more\s+so else\s+than "
    r"of\s+ours of\s+theirs of\s+its\s+own of\s+their\s+own as\s+it\s+is"
)


def _any_of(words: str) -> str:
    return "(?:" + "|".join(words.split(" ")) + ")"


PATTERNS = {
    "', for …' (say: because)": re.compile(rf",\s+for\s+{_any_of(_FOR)}\b", re.IGNORECASE),
    "what/whoever as a subject (name the thing)": re.compile(
        rf"\b(?:what|whoever|whatever)\s+{_any_of(_WHAT)}\b", re.IGNORECASE
    ),
    "tell/told (say: report, return, show, log)": re.compile(r"\b(?:tells?|told|telling)\b", re.IGNORECASE),
    "archaic or vague words": re.compile(rf"\b{_any_of(_VAGUE)}\b", re.IGNORECASE),
}


class Prose(NamedTuple):
    """A text for people, and the line of its file where the text begins."""

    line: int
    text: str


class Hit(NamedTuple):
    """An idiom at a place: ``around`` is the text beside it, ``label`` the pattern that found it."""

    path: str
    line: int
    around: str
    label: str


@dataclass
class Folder:
    """The words and the hits of one folder."""

    words: int = 0
    hits: list[Hit] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the hits per 1,000 words."""
        return 1000 * len(self.hits) / max(self.words, 1)


def python_prose(source: str) -> Iterator[Prose]:
    """Yield docstrings, comments, and string arguments of calls."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and (text := _text_of(node.value)):
            yield Prose(node.lineno, text)
        elif isinstance(node, ast.Call):
            for value in [*node.args, *[keyword.value for keyword in node.keywords]]:
                text = _text_of(value)
                if text.count(" ") >= MIN_SPACES:
                    yield Prose(value.lineno, text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.string.lstrip("# "))


def _text_of(node: ast.expr) -> str:
    """Return the text of a string literal, with ``X`` for each value that an f-string inserts; otherwise ''."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) or "X" for part in node.values)
    return ""


def markdown_prose(source: str) -> Iterator[Prose]:
    """Yield the lines outside of code blocks, with ``X`` for each code span."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            yield Prose(number, re.sub(r"`[^`]*`", "X", line))


_HASH = r"(?:^|[ \t])#[ \t]?(?P<text>.+)$"
_SLASHES = r"(?:^|[ \t])//[ \t]?(?P<text>.+)$"
_TEMPLATE = r"(?s:\{\{-?\s*/\*(?P<block>.*?)\*/)|" + _HASH
COMMENTS = {
    ".tpl": _TEMPLATE,
    ".yaml": _TEMPLATE,
    ".yml": _TEMPLATE,
    ".toml": _HASH,
    ".sh": _HASH,
    "Makefile": _HASH,
    "Dockerfile": _HASH,
    ".go": _SLASHES,
}
"""Pattern of the comments in files with this suffix or name."""


def prose(kind: str, source: str) -> Iterator[Prose]:
    """Yield the texts for people of a file; ``kind`` is its suffix, or its name if it has none."""
    if kind == ".py":
        yield from python_prose(source)
    elif kind in (".md", ".txt"):
        yield from markdown_prose(source)
    elif kind in COMMENTS:
        for match in re.finditer(COMMENTS[kind], source, re.MULTILINE):
            yield Prose(source.count("\n", 0, match.start(match.lastgroup or 0)) + 1, match[match.lastgroup or 0])


def find(path: str, text: Prose) -> Iterator[Hit]:
    """Yield the idioms of one text, each with its own line."""
    for label, pattern in PATTERNS.items():
        for match in pattern.finditer(text.text):
            line = text.line + text.text.count("\n", 0, match.start())
            around = " ".join(text.text[max(0, match.start() - 40) : match.end() + 40].split())
            yield Hit(path, line, around, label)


def count(root: Path, paths: Iterable[str]) -> dict[str, Folder]:
    """Return the words and hits of each folder; a folder has at most two levels, the root is ``(root)``."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--", *paths]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    folders: dict[str, Folder] = {}
    for path in [Path(name) for name in names if name and (root / name).is_file()]:
        kind = path.suffix or path.name
        if kind not in {".py", ".md", ".txt", *COMMENTS}:
            continue
        folder = folders.setdefault("/".join(path.parts[:-1][:2]) or "(root)", Folder())
        for text in prose(kind, (root / path).read_text(encoding="utf-8", errors="replace")):
            folder.words += len(text.text.split())
            folder.hits += find(str(path), text)
    return folders


def guide_words(root: Path) -> int:
    """Return how many words the guides have, with their commands."""
    return sum(len(page.read_text().split()) for page in (root / "docs").glob("*.md") if page.name not in NO_GUIDES)


def main(arguments: list[str] | None = None, root: Path | None = None) -> int:
    """Print the report for a git checkout (the working directory by default); return the exit code."""
    parser = argparse.ArgumentParser(prog="plain_english", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the first N hits of each folder")
    parser.add_argument("paths", nargs="*", default=["."], metavar="PATH", help="files or folders (the checkout)")
    options = parser.parse_args(arguments)
    folders = count(root or Path(), options.paths)
    failures = []
    for name, folder in sorted(folders.items(), key=lambda item: (-item[1].rate, item[0])):
        print(f"{folder.rate:6.1f} per 1,000 words  {len(folder.hits):5d} in {folder.words:7d}  {name}")
        for hit in folder.hits[: options.list]:
            print(f"{hit.path}:{hit.line}: {hit.around}    [{hit.label}]")
        if folder.words >= MIN_WORDS and folder.rate > MAX_FOLDER:
            failures.append(f"{name} has {folder.rate:.1f} idioms per 1,000 words; a folder may have {MAX_FOLDER:g}")
    whole = Folder(
        sum(folder.words for folder in folders.values()), [hit for folder in folders.values() for hit in folder.hits]
    )
    print(f"{whole.rate:6.1f} per 1,000 words  {len(whole.hits):5d} in {whole.words:7d}  in all")
    if whole.rate > MAX_TOTAL:
        failures.append(f"all folders have {whole.rate:.1f} idioms per 1,000 words; they may have {MAX_TOTAL:g}")
    words = guide_words(root or Path())
    print(f"{words:,} words in the guides of {MAX_GUIDE_WORDS:,}")
    if words > MAX_GUIDE_WORDS:
        failures.append(f"the guides have {words:,} words; they may have {MAX_GUIDE_WORDS:,}: shorten docs/*.md")
    for sentence in failures:
        print(f"plain_english: {sentence}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
