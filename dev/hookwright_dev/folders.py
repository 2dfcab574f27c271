"""Folders that belong to one running process and are cleaned up after it, at the latest by the next one."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self, TextIO

from hookwright_dev.errors import FolderInUseError

_PREFIX = "hookwright-plane-"
_LOCK = ".hookwright-lock"


class OwnFolder:
    """A folder that is locked, and thus visibly alive, for as long as this process has it."""

    def __init__(self, path: Path, lock: TextIO) -> None:
        """Wrap a folder whose lock is held; use `temporary` or `at` instead."""
        self.path = path
        self._lock = lock

    @classmethod
    def temporary(cls) -> Self:
        """Make a new folder among the system's temporary files, and remove what crashed processes left there."""
        _sweep(Path(tempfile.gettempdir()))
        unnamed = Path(tempfile.mkdtemp(prefix="hookwright-new-"))
        lock = _lock(unnamed / _LOCK)
        # Only a locked folder may carry the name that others sweep.
        path = unnamed.rename(unnamed.with_name(unnamed.name.replace("hookwright-new-", _PREFIX)))
        return cls(path, lock)

    @classmethod
    def at(cls, path: Path) -> Self:
        """Take ``path``, making it or emptying it of what a crashed process left.

        Raises `FolderInUseError` when a live process has it, or when it holds files that no control plane made.
        """
        path = path.resolve()
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not (path / _LOCK).exists():
            raise FolderInUseError(f"folder {path} holds files of something else; name a new or an empty folder")
        try:
            lock = _lock(path / _LOCK)
        except BlockingIOError:
            raise FolderInUseError(
                f"folder {path} belongs to a running control plane; stop it, or name another"
            ) from None
        own = cls(path, lock)
        own.clear()
        return own

    def clear(self) -> None:
        """Delete what the folder holds, and keep the folder."""
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _LOCK:
                entry.unlink()

    def remove(self) -> None:
        """Delete the folder with all it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _lock(path: Path) -> TextIO:
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise
    return lock


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, still alive, or just swept by another process
            if path.lstat().st_uid == os.getuid():
                with (path / _LOCK).open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
