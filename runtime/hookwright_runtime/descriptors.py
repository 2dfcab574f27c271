"""File descriptors of this process: the limit is raised at start, and a process that may lack some does not start."""

import resource
from contextlib import suppress
from typing import Final

from hookwright_runtime.errors import SettingsError

_LARGEST: Final = 1_048_576
"""The limit is raised to this value at most: some systems allow 2**30, and tables grow with the limit."""


def ensure_open_files(files: int, *, bounds: str) -> None:
    """Raise the soft limit of open files to the hard limit, and check that it suffices.

    Args:
        files: the files that the process has open if each of its uses is at its bound.
        bounds: the settings whose smaller values need fewer.

    Raises:
        SettingsError: the hard limit is below ``files``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _LARGEST if hard == resource.RLIM_INFINITY else min(hard, _LARGEST)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < files:
        raise SettingsError(
            f"the system allows this process {soft} open files; it needs {files}: raise the limit of open files "
            f"(ulimit -Hn), or lower {bounds}"
        )
