"""Credentials of contexts: in the keyring of the desktop, or in a file that only the user can read.

``HOOKWRIGHT_KEYRING=off`` selects the file. The file is also used if no keyring works.
"""

import contextlib
import json
import os
from pathlib import Path

from hookwright_cli.contexts import folder, write_private

_SERVICE = "hookwright"


def keep(context: str, credential: str) -> str:
    """Keep the credential of a context; return where: ``keyring``, or the path of the file."""
    if _keep_in_keyring(context, credential):
        _change_file(context, None)
        return "keyring"
    _change_file(context, credential)
    return str(_file())


def kept(context: str) -> str:
    """Return the credential of a context, empty if there is none."""
    written = _read_file().get(context)
    if written is not None:
        return written
    if _keyring_is_off():
        return ""
    import keyring
    from keyring.errors import KeyringError

    try:
        return keyring.get_password(_SERVICE, context) or ""
    except (KeyringError, RuntimeError, OSError):
        return ""


def forget(context: str) -> None:
    """Remove the credential of a context."""
    _change_file(context, None)
    if _keyring_is_off():
        return
    import keyring
    from keyring.errors import KeyringError

    with contextlib.suppress(KeyringError, RuntimeError, OSError):
        keyring.delete_password(_SERVICE, context)


def _keep_in_keyring(context: str, credential: str) -> bool:
    if _keyring_is_off():
        return False
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(_SERVICE, context, credential)
        # The backend "null" accepts a password and drops it.
        return keyring.get_password(_SERVICE, context) == credential
    except (KeyringError, RuntimeError, OSError):
        return False


def _keyring_is_off() -> bool:
    return os.environ.get("HOOKWRIGHT_KEYRING", "").lower() in {"off", "false", "0"}


def _file() -> Path:
    return folder() / "credentials.json"


def _read_file() -> dict[str, str]:
    try:
        return dict(json.loads(_file().read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _change_file(context: str, credential: str | None) -> None:
    written = _read_file()
    if written.get(context) == credential:
        return
    written.pop(context, None)
    if credential is not None:
        written[context] = credential
    write_private(_file(), json.dumps(written, indent=1))
