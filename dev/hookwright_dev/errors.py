"""Errors of the development tools.

::

    DevError
    ├── ToolError           a program, package or file cannot be found, fetched, verified or built
    ├── ProcessError        a child process ended too early, or was not ready in time
    │   └── EarlyExitError  it ended although it was still needed
    ├── FolderInUseError    a folder of another control plane, or with foreign files
    ├── BenchError          a run of the benchmark is void
    └── KubectlError        kubectl ended with an error
"""


class DevError(Exception):
    """An error of the development tools; the message names the correct form."""


class ToolError(DevError):
    """A tool that is not available; the message names the package, the variable or the URL."""


class ProcessError(DevError):
    """A child process failed; the message ends with the last lines of its log."""


class EarlyExitError(ProcessError):
    """A child process ended although it was still needed."""


class FolderInUseError(DevError):
    """A folder belongs to a running control plane, or contains files that no control plane created."""


class BenchError(DevError):
    """A void run: an event or delivery was refused, lost or repeated, or did not arrive in time."""


class KubectlError(DevError):
    """kubectl ended with an error; the message contains its standard error."""
