"""Count idioms that slow a reader down, in docstrings, comments, messages and documentation.

``python -m hookwright_dev.plain_english`` exits with 1 if a folder has more hits per 1,000 words than `MAX_RATE`, and
prints them; or if the guides have more words than `MAX_GUIDE_WORDS`. Only files that git tracks are counted. The count
is a proxy: a text without hits can still be hard to read.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_RATE = 2.0
# Of docs/*.md, as `wc -w` counts them, without the pages that the site's navigation does not have either.
MAX_GUIDE_WORDS = 42_800
NO_GUIDES = frozenset({"pitfalls.md", "tricks.md"})
# A folder with fewer words counts as one with so many: in a short text one hit would be a high rate.
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
    """An idiom at a place, ``path:line``: ``around`` is the text beside it, ``label`` the pattern that found it."""

    place: str
    around: str
    label: str


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
            yield Hit(f"{path}:{line}", around, label)


def count(root: Path) -> tuple[Counter[str], dict[str, list[Hit]]]:
    """Return the words and the hits of each folder; a folder has at most two levels, the root is ``(root)``."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    words, hits = Counter[str](), defaultdict[str, list[Hit]](list)
    for path in [Path(name) for name in names if name and (root / name).is_file()]:
        kind = path.suffix or path.name
        if kind not in {".py", ".md", ".txt", *COMMENTS}:
            continue
        folder = "/".join(path.parts[:-1][:2]) or "(root)"
        for text in prose(kind, (root / path).read_text(encoding="utf-8", errors="replace")):
            words[folder] += len(text.text.split())
            hits[folder] += find(str(path), text)
    return words, hits


def guide_words(root: Path) -> int:
    """Return how many words the guides have, with their commands."""
    return sum(len(page.read_text().split()) for page in (root / "docs").glob("*.md") if page.name not in NO_GUIDES)


def main(root: Path = Path()) -> int:
    """Print what exceeds its bound in a git checkout; return the exit code."""
    words, hits = count(root)
    has_failed = False
    for folder, number in words.items():
        rate = 1000 * len(hits[folder]) / max(number, MIN_WORDS)
        if rate > MAX_RATE:
            has_failed = True
            print("\n".join(f"{hit.place}: {hit.around}    [{hit.label}]" for hit in hits[folder]))
            print(f"{folder} has {rate:.1f} idioms per 1,000 words; a folder may have {MAX_RATE:g}")
    print(f"{sum(map(len, hits.values()))} idioms in {words.total():,} words")
    guides = guide_words(root)
    print(f"{guides:,} words in the guides, which may have {MAX_GUIDE_WORDS:,}")
    return 1 if has_failed or guides > MAX_GUIDE_WORDS else 0


if __name__ == "__main__":
    raise SystemExit(main())
