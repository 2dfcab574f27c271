"""The counter of idioms reads every kind of prose, reports places, and enforces its bounds."""

import subprocess
from pathlib import Path

import pytest

from hookwright_dev.plain_english import MAX_GUIDE_WORDS, count, main, markdown_prose

IDIOM = "nobody knows"
MODULE = '''"""A docstring.

The cache is made anew.
"""

NAMES = "nobody reads a constant"
LIMIT = 3  # the limit, for it is small
log.warning(f"row {LIMIT} was told about", reason="nobody asked for it", key="nobody")
'''
GUIDE = """# Guide

Run the command, and `nobody` is code.

```sh
echo nobody
```

    nobody in a block

The command tells the name.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a git repository without files."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    """Write a file that git tracks."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "-C", str(root), "add", "--", name], check=True)


def hits(root: Path) -> list[str]:
    """Return the place of each hit as ``path:line``."""
    return sorted(hit.place for folder_hits in count(root)[1].values() for hit in folder_hits)


def test_python_hits_are_in_docstrings_comments_and_messages(checkout: Path) -> None:
    """Constants and short arguments are no prose; a hit has the line of the idiom, not of the docstring."""
    write(checkout, "a/module.py", MODULE)
    assert hits(checkout) == ["a/module.py:3", "a/module.py:7", "a/module.py:8", "a/module.py:8"]


def test_code_in_markdown_is_no_prose(checkout: Path) -> None:
    """Skip code spans, fenced blocks and indented blocks."""
    write(checkout, "docs/guide.md", GUIDE)
    assert hits(checkout) == ["docs/guide.md:11"]
    assert "nobody" not in " ".join(prose.text for prose in markdown_prose(GUIDE))


def test_the_bound_of_a_folder_names_the_folder(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail for a folder above its bound, and pass for a folder at it."""
    write(checkout, "docs/a.md", "plain " * 998 + IDIOM)
    write(checkout, "good/b.md", "plain " * 4000)
    assert main(checkout) == 0
    write(checkout, "docs/b.md", 3 * f"{IDIOM} ")
    assert main(checkout) == 1
    output = capsys.readouterr().out
    assert "docs has 4.0 idioms per 1,000 words; a folder may have 2" in output
    assert "docs/b.md:1: " in output
    assert "good" not in output


def test_the_guides_have_a_bound_of_words(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word too many fails; decisions, tricks and pitfalls do not count."""
    write(checkout, "docs/guide.md", "word " * MAX_GUIDE_WORDS)
    write(checkout, "docs/tricks.md", "word")
    write(checkout, "docs/decisions/one.md", "word")
    assert main(checkout) == 0
    write(checkout, "docs/event-types.md", "word")
    assert main(checkout) == 1
    assert f"{MAX_GUIDE_WORDS + 1:,} words in the guides, which may have" in capsys.readouterr().out
