"""What Linux says of processes is read as proc(5) describes it."""

from hookwright_dev.bench.usage import parse_cpu, parse_machine, parse_resident


def test_cpu_is_user_and_system_time_whatever_the_program_is_called() -> None:
    """A program's name may hold blanks and brackets, and stands before the numbers."""
    stat = "42 (a) (b c) S 1 42 42 0 -1 4194560 9 0 0 0 120 30 7 8 20 0 1 0 100 1000 10"
    assert parse_cpu(stat) == 150


def test_memory_is_what_is_resident() -> None:
    """Not what was mapped, and not what it was at its peak."""
    status = "Name:\tpython\nVmPeak:\t 999999 kB\nVmSize:\t 888888 kB\nVmRSS:\t  102400 kB\nThreads:\t9\n"
    assert parse_resident(status) == 100.0


def test_the_machine_is_not_busy_while_it_waits_for_a_disk() -> None:
    """Idle time and waiting for a disk are left out; interrupts count."""
    stat = "cpu  100 20 30 9000 500 6 4 50 0 0\ncpu0 50 10 15 4500 250 3 2 25 0 0\n"
    assert parse_machine(stat) == 160
