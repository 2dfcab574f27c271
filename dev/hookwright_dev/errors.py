"""Errors of the development tools.

::

    DevError
    ├── AssetsError                 the control plane's binaries are not available
    │   ├── IncompleteAssetsError   a folder lacks some of them
    │   ├── DownloadError           a release could not be fetched
    │   │   └── ChecksumError       or its checksum is not the published one
    │   └── BuildError              the Go build failed
    ├── ProcessError                a child process
    │   ├── EarlyExitError          ended although it was still needed
    │   └── NotReadyError           runs, and was not ready in time
    ├── FolderInUseError            a folder of another control plane, or with foreign files
    ├── BenchError                  a run of the benchmark is void
    └── KubectlError                kubectl ended with an error
"""


class DevError(Exception):
    """An error of the development tools; the message names the correct form."""


class AssetsError(DevError):
    """The control plane's binaries are not available."""


class IncompleteAssetsError(AssetsError):
    """A folder that should contain every binary lacks some."""


class DownloadError(AssetsError):
    """A release could not be fetched."""


class ChecksumError(DownloadError):
    """A download's SHA-256 is not the published one; the file was deleted."""


class BuildError(AssetsError):
    """The Go build failed."""


class ProcessError(DevError):
    """A child process failed; the message ends with the last lines of its log."""


class EarlyExitError(ProcessError):
    """A child process ended although it was still needed."""


class NotReadyError(ProcessError):
    """A child process runs, but was not ready in time."""


class FolderInUseError(DevError):
    """A folder belongs to a running control plane, or contains files that no control plane created."""


class BenchError(DevError):
    """A void run: an event or delivery was refused, lost or repeated, or did not arrive in time."""


class KubectlError(DevError):
    """kubectl ended with an error; the message contains its standard error."""
