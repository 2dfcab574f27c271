"""The limits of lines and names of each package."""

import pytest

from hookwright_dev.house_limits import PAGE, ROOT, Limit, faults, is_noun, limits, names_in


def test_the_page_has_the_limits_of_each_package() -> None:
    """A new package gets limits, and each limit concerns an existing folder."""
    packages = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/hookwright_*/__init__.py")}
    names = {limit.package for limit in limits(PAGE.read_text())}
    assert packages | {"tests"} <= names
    assert all((ROOT / package).is_dir() for package in names)


@pytest.mark.parametrize(
    ("name", "noun"), [("delivery", True), ("found", False), ("listed", False), ("is_listed", True), ("_seed", True)]
)
def test_a_participle_or_a_pronoun_is_no_noun(name: str, *, noun: bool) -> None:
    """A name of two words is a phrase, and may be a predicate."""
    assert is_noun(name) is noun


def test_an_exceeded_limit_is_named_with_its_cause() -> None:
    """The message has the measured number, the limit, and the frequent names."""
    source = "def f(self, found, *rows):\n    one = found\n    return one\n"
    assert set(names_in(source)) == {"one", "found", "rows"}
    assert list(faults(Limit("p", 3, 70.0), [source])) == []
    lines, names = faults(Limit("p", 2, 10.0), [source])
    assert lines == "p has 3 lines, more than 2"
    assert names.startswith("p: 66.7 % of its names are no nouns, more than 10.0 %: ")
