"""Process figures of Linux are parsed as proc(5) describes them."""

import os
import subprocess
import sys

from hookwright_dev.bench.usage import Meter, families, parse_cpu, parse_parent

_STAT = "42 (a) (b c) S 7 42 42 0 -1 4194560 9 0 0 0 120 30 5 3 20 0 1 0 100 1000 10"
_BUSY = "from time import process_time as now\nend = now() + 0.2\nwhile now() < end: pass\n"
_PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {_BUSY!r}])
busy = {_BUSY!r} + "print('busy', flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE)
input()
child.kill()
"""


def test_cpu_is_user_and_system_time_whatever_the_program_is_called() -> None:
    """A program's name before the numbers may contain blanks and brackets; the time of ended children counts."""
    assert parse_cpu(_STAT) == 158
    assert parse_parent(_STAT) == 7


def test_what_a_process_uses_is_what_its_children_use_too() -> None:
    """A database server has one process for each connection, and some have ended at the time of reading."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        meter = Meter({"family": [parent.pid]})
        assert parent.stdout is not None
        assert parent.stdout.readline() == "busy\n"
        usage = meter.read()
        family = families([parent.pid])[parent.pid]
        parent.communicate("\n", timeout=10)

    assert len(family) == 2
    assert usage.by_name["family"] >= 0.3
    assert set(usage.by_name) == {"family", "harness"}
    assert os.getpid() not in family
