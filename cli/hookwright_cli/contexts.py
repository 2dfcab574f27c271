"""The contexts of a user: named ways into Hookwright, in ``~/.config/hookwright/config.yaml``; their credentials."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hookwright_cli.command_errors import CommandError, ExitCode


@dataclass(frozen=True, slots=True)
class Context:
    """One named way: by ``/v1`` if it has a URL, otherwise by a kubeconfig.

    A login with an API key has no email. The namespace is the organization.
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
    by_name: dict[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context:
        """Return a context by its name."""
        if name not in self.by_name:
            names = ", ".join(sorted(self.by_name)) or "none"
            raise CommandError(f'context "{name}" does not exist; known contexts: {names}', ExitCode.NOT_FOUND)
        return self.by_name[name]


def folder() -> Path:
    """Return the folder of the user's configuration."""
    if path := os.environ.get("HOOKWRIGHT_CONFIG_FOLDER"):
        return Path(path)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "hookwright"


def load() -> Contexts:
    """Return the contexts of the user; none if there is no file."""
    import yaml

    path = folder() / "config.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        by_name = {name: Context(name=str(name), **fields) for name, fields in (document.get("contexts") or {}).items()}
        return Contexts(str(document.get("current") or ""), by_name)
    except FileNotFoundError:
        return Contexts()
    except (yaml.YAMLError, TypeError, AttributeError, OSError) as error:
        raise CommandError(f"{path} cannot be read: {error}", ExitCode.USAGE) from None


def save(contexts: Contexts) -> None:
    """Write the contexts, readable only by the user."""
    import yaml

    document = {
        name: {field: value for field, value in asdict(context).items() if value and field != "name"}
        for name, context in sorted(contexts.by_name.items())
    }
    text = yaml.safe_dump({"current": contexts.current, "contexts": document}, sort_keys=False)
    _write_private(folder() / "config.yaml", text)


def _write_private(path: Path, text: str) -> None:
    """Replace a file that only its owner can read; a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def keep(context: str, credential: str) -> str:
    """Keep the credential of a context in the keyring, or in a file if none works; return where."""
    _call_keyring("set_password", context, credential)
    # The backend "null" accepts a password and drops it.
    is_kept = _call_keyring("get_password", context) == credential
    _change_file(context, None if is_kept else credential)
    return "keyring" if is_kept else str(_credentials_file())


def credential_of(context: str) -> str:
    """Return the credential of a context, empty if there is none."""
    return _read_file().get(context) or _call_keyring("get_password", context) or ""


def forget(context: str) -> None:
    """Remove the credential of a context."""
    _change_file(context, None)
    _call_keyring("delete_password", context)


def _call_keyring(function: str, *arguments: str) -> str | None:
    """Return the answer of the keyring of the desktop, None if ``HOOKWRIGHT_KEYRING=off`` or if it does not work."""
    if os.environ.get("HOOKWRIGHT_KEYRING", "").lower() in {"off", "false", "0"}:
        return None
    import keyring
    from keyring.errors import KeyringError

    try:
        password: str | None = getattr(keyring, function)("hookwright", *arguments)
    except (KeyringError, RuntimeError, OSError):
        return None
    return password


def _credentials_file() -> Path:
    return folder() / "credentials.json"


def _read_file() -> dict[str, str]:
    try:
        return dict(json.loads(_credentials_file().read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _change_file(context: str, credential: str | None) -> None:
    credentials = _read_file()
    if credentials.get(context) == credential:
        return
    credentials.pop(context, None)
    if credential is not None:
        credentials[context] = credential
    _write_private(_credentials_file(), json.dumps(credentials, indent=1))
