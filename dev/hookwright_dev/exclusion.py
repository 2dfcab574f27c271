"""Work on a common folder that one process at a time may do."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookwright_dev.progress import progress


@contextmanager
def exclusive(path: Path, subject: str) -> Iterator[None]:
    """Exclude other processes inside the context.

    Args:
        path: the file to lock; it is created.
        subject: what the processes prepare, for the progress line of one that waits.
    """
    with path.open("w") as lock:
        with progress(f"waiting for another process that prepares {subject}"):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
