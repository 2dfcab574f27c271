"""The contexts of a user: named ways into Hookwright, in ``~/.config/hookwright/config.yaml``."""

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode


@dataclass(frozen=True, slots=True)
class Context:
    """One named way: by ``/v1`` if it has a URL, otherwise by a kubeconfig.

    Attributes:
        url: base URL of the service.
        project: name of the project, empty if the credential has only one.
        email: of the user who logged in; empty for an API key.
        expires_at: when the session ends.
        kube_context: context of the kubeconfig; empty for its current one.
        namespace: the organization.
    """

    name: str
    url: str = ""
    project: str = ""
    email: str = ""
    expires_at: str = ""
    kubeconfig: str = ""
    kube_context: str = ""
    namespace: str = ""


@dataclass(slots=True)
class Contexts:
    """All contexts, and the name of the current one."""

    current: str = ""
    known: dict[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context:
        """Return a context by its name."""
        if name not in self.known:
            names = ", ".join(sorted(self.known)) or "none"
            raise CommandError(f'context "{name}" does not exist; known contexts: {names}', ExitCode.NOT_FOUND)
        return self.known[name]


def folder() -> Path:
    """Return the folder of the user's configuration."""
    if chosen := os.environ.get("HOOKWRIGHT_CONFIG_FOLDER"):
        return Path(chosen)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "hookwright"


def load() -> Contexts:
    """Return the contexts of the user; none if there is no file."""
    import yaml

    path = folder() / "config.yaml"
    try:
        written = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        known = {name: Context(name=str(name), **fields) for name, fields in (written.get("contexts") or {}).items()}
        return Contexts(str(written.get("current") or ""), known)
    except FileNotFoundError:
        return Contexts()
    except (yaml.YAMLError, TypeError, AttributeError, OSError) as error:
        raise CommandError(f"{path} cannot be read: {error}", ExitCode.USAGE) from None


def save(contexts: Contexts) -> None:
    """Write the contexts, readable only by the user."""
    import yaml

    described: dict[str, Any] = {"current": contexts.current, "contexts": {}}
    for name, one in sorted(contexts.known.items()):
        fields = {key: value for key, value in asdict(one).items() if value and key != "name"}
        described["contexts"][name] = fields
    write_private(folder() / "config.yaml", yaml.safe_dump(described, sort_keys=False))


def write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read; a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)
