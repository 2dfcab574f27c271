"""What can go wrong on the development machine.

::

    DevError
    ├── AssetsError                 the control plane's binaries could not be had
    │   ├── IncompleteAssetsError   a folder lacks some of them
    │   ├── DownloadError           a release could not be fetched
    │   │   └── ChecksumError       or is not what was published
    │   └── BuildError              the Go build did not come through
    ├── ProcessError                a child process
    │   ├── EarlyExitError          ended although it was still needed
    │   └── NotReadyError           runs, and was not ready in time
    ├── FolderInUseError            another control plane lives there, or somebody else's files
    └── KubectlError                kubectl ended with an error
"""


class DevError(Exception):
    """Any fault of the development tools; the message says what would be right."""


class AssetsError(DevError):
    """The control plane's binaries could not be had."""


class IncompleteAssetsError(AssetsError):
    """A folder that should hold every binary lacks some."""


class DownloadError(AssetsError):
    """A release could not be fetched."""


class ChecksumError(DownloadError):
    """A download's SHA-256 is not the published one; it was thrown away."""


class BuildError(AssetsError):
    """The Go build did not come through."""


class ProcessError(DevError):
    """A child process failed; the message ends with the last lines of its log."""


class EarlyExitError(ProcessError):
    """A child process ended although it was still needed."""


class NotReadyError(ProcessError):
    """A child process runs, but was not ready in time."""


class FolderInUseError(DevError):
    """A folder belongs to a running control plane, or holds files that no control plane made."""


class KubectlError(DevError):
    """kubectl ended with an error; the message carries what it wrote to standard error."""
