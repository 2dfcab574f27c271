"""The number of connections that fit below the limit of file descriptors."""

import subprocess
import sys

import pytest

PROGRAM = (
    "from hookwright_runtime.descriptors import *;"
    "before = descriptor_limit();"
    "print(before, raise_descriptor_limit(), connections_that_fit(4096, beside={beside}))"
)


@pytest.mark.parametrize(
    ("limits", "beside", "expected"),
    [("256:1024", 600, "256 1024 424"), ("1024:8192", 600, "1024 8192 4096"), ("256:256", 600, "256 256 64")],
    ids=["fewer fit", "as many as are wanted", "a few always"],
)
def test_the_limit_is_raised_and_connections_stay_below_it(limits: str, beside: int, expected: str) -> None:
    """A separate process runs the check, because a lowered limit stays low."""
    argv = ["prlimit", f"--nofile={limits}", sys.executable, "-c", PROGRAM.format(beside=beside)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
