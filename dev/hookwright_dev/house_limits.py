"""Compare the lines of each package, and the share of its names that are no nouns, with their limits.

The limits are the table "Limits of the packages" in ``docs/architecture.md``. A variable or parameter names a thing,
so a participle, a pronoun or a quantifier as its whole name counts. Names of two words do not
count: they may be predicates.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "architecture.md"
_ROW: Final = re.compile(r"^\| `([\w/]+)` \| ([\d,]+) \| ([\d.]+) \|$", re.MULTILINE)
_FREQUENT: Final = 8
_ODD_WORDS: Final = """
found one known wanted kept told said which about left made given held taken sent written gone begun done shown seen
grown brought built bought caught chosen drawn fallen felt got heard hidden lost meant met paid sold spent stood thought
understood won another others both each other all any none some this that these those what who whom whose where when how
why more most least less own such nobody nothing everything whoever whatever
"""
_NOUNS: Final = "seed speed need feed embed bed expected observed enabled deprecated allowed required desired elapsed"
_NO_NOUNS: Final = frozenset(_ODD_WORDS.split())
_NOUNS_IN_ED: Final = frozenset(_NOUNS.split())


class Limit(NamedTuple):
    """The limits of a package: its lines of Python, and the share of names that are no nouns, in per cent."""

    package: str
    lines: int
    share: float


def limits(page: str) -> list[Limit]:
    """Return the limits that a page has."""
    return [Limit(package, int(lines.replace(",", "")), float(share)) for package, lines, share in _ROW.findall(page)]


def is_noun(name: str) -> bool:
    """Return whether a name is a noun, or a phrase of several words."""
    word = name.strip("_").lower()
    if not word or "_" in word or name.startswith("__") or word in _NOUNS_IN_ED:
        return True
    return word not in _NO_NOUNS and not word.endswith("ed")


def names_in(source: str) -> Iterator[str]:
    """Yield the name of each variable and parameter of a module, as often as it is assigned."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.arg(arg=name) if name not in ("self", "cls"):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name


def faults(limit: Limit, sources: list[str]) -> Iterator[str]:
    """Yield a sentence for each limit that the modules of a package exceed."""
    if (lines := sum(source.count("\n") for source in sources)) > limit.lines:
        yield f"{limit.package} has {lines:,} lines, more than {limit.lines:,}"
    names = [name for source in sources for name in names_in(source)]
    odd = Counter(name for name in names if not is_noun(name))
    if (share := 100 * odd.total() / max(1, len(names))) > limit.share:
        frequent = ", ".join(f"{name} {count}" for name, count in odd.most_common(_FREQUENT))
        yield f"{limit.package}: {share:.1f} % of its names are no nouns, more than {limit.share} %: {frequent}"


def main() -> int:
    """Print each exceeded limit; return 1 if there is one."""
    sentences = [
        fault
        for limit in limits(PAGE.read_text())
        for fault in faults(limit, [path.read_text() for path in sorted((ROOT / limit.package).rglob("*.py"))])
    ]
    print("\n".join(sentences) or "each package keeps its limits of lines and names")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
