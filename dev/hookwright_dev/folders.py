"""Folders that belong to one running process and are deleted after it, at the latest by the next one."""

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
    """A folder that is locked as long as this process uses it."""

    def __init__(self, path: Path, lock: TextIO) -> None:
        """Wrap a folder whose lock this process has; use `temporary` or `at` instead."""
        self.path = path
        self._lock = lock

    @classmethod
    def temporary(cls) -> Self:
        """Create a new folder among the system's temporary files, and remove the folders of crashed processes."""
        _sweep(Path(tempfile.gettempdir()))
        draft = Path(tempfile.mkdtemp(prefix="hookwright-new-"))
        lock = _lock(draft / _LOCK)
        # Only a locked folder may have the name that other processes sweep.
        path = draft.rename(draft.with_name(draft.name.replace("hookwright-new-", _PREFIX)))
        return cls(path, lock)

    @classmethod
    def at(cls, path: Path) -> Self:
        """Use ``path``; create it, or empty it of a crashed process's files.

        Raises `FolderInUseError` if a live process uses it, or if it contains files that no control plane created.
        """
        path = path.resolve()
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not (path / _LOCK).exists():
            raise FolderInUseError(f"folder {path} contains other files; name a new or an empty folder")
        try:
            lock = _lock(path / _LOCK)
        except BlockingIOError:
            raise FolderInUseError(
                f"folder {path} belongs to a running control plane; stop it, or name another"
            ) from None
        folder = cls(path, lock)
        folder.clear()
        return folder

    def clear(self) -> None:
        """Delete the folder's contents, and keep the folder."""
        for entry in self.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != _LOCK:
                entry.unlink()

    def remove(self) -> None:
        """Delete the folder with its contents."""
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
        with suppress(OSError):  # another user's, in use, or just removed by another process
            if path.lstat().st_uid == os.getuid():
                with (path / _LOCK).open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
