"""The command line sends a credential without encryption only if the user says so."""

from pathlib import Path

import pytest
from support.api_receiver import receiving
from support.command_transcripts import Transcript

from hookwright_cli.way_choice import is_loopback

KEY = "hw_k7q2m9x0a3b5_secret"


@pytest.fixture
def commands(tmp_path: Path) -> Transcript:
    """Return commands of a user without a context."""
    return Transcript({"HOME": str(tmp_path), "XDG_CONFIG_HOME": None, "HOOKWRIGHT_KEYRING": "off"})


@pytest.mark.parametrize("host", ["hooks.example.com", "10.0.0.7", "[2001:db8::1]", "0.0.0.0", "localhost.example.com"])
@pytest.mark.parametrize("user", [("--key",), ("--email", "ada@example.com")])
def test_a_login_without_encryption_is_refused_before_the_credential_is_read(
    commands: Transcript, host: str, user: tuple[str, ...]
) -> None:
    """The message says why, and names the option for a network that the user trusts."""
    refusal = commands.quiet("login", "--url", f"http://{host}:8080", *user, stdin=f"{KEY}\n")
    assert refusal.exit_code == 2
    assert "has no encryption: others can read the credential on its way; use https://" in refusal.stderr
    assert "--insecure" in refusal.stderr
    assert "hw_" not in refusal.stderr


def test_with_the_option_or_on_this_machine_the_credential_is_sent(commands: Transcript) -> None:
    """The address 0.0.0.0 leads to this machine, but it is no loopback address, so it needs the option."""
    with receiving() as service:
        service.status = 401
        anywhere = f"http://0.0.0.0:{service.url.rpartition(':')[2]}"
        for options in (("--url", service.url), ("--url", anywhere, "--insecure")):
            result = commands.quiet("login", *options, "--email", "ada@example.com", stdin="a password\n")
            assert result.exit_code == 4, result.stderr
        assert commands.quiet("login", "--url", anywhere, "--email", "ada@example.com", stdin="x\n").exit_code == 2
    assert [(path, b"a password" in body) for path, _, body in service.requests] == [("/v1/auth/login", True)] * 2


def test_a_key_of_the_environment_is_not_sent_without_encryption(tmp_path: Path) -> None:
    """A URL of a variable or an option needs https, loopback or the variable; a context was allowed at its login."""
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": None, "HOOKWRIGHT_KEYRING": "off"}
    with receiving() as service:
        service.status = 401
        anywhere = f"http://0.0.0.0:{service.url.rpartition(':')[2]}"
        by_variables = home | {"HOOKWRIGHT_API_KEY": KEY, "HOOKWRIGHT_API_URL": anywhere}
        for commands, options in (
            (Transcript(by_variables), ()),
            (Transcript(home | {"HOOKWRIGHT_API_KEY": KEY}), ("--url", anywhere)),
        ):
            refusal = commands.quiet("send", "delivered", *options)
            assert refusal.exit_code == 2
            assert "has no encryption: others can read the credential on its way; use https://" in refusal.stderr
            assert "HOOKWRIGHT_INSECURE=true" in refusal.stderr
            assert KEY not in refusal.stderr
        assert service.requests == []
        allowed = Transcript(by_variables | {"HOOKWRIGHT_INSECURE": "true"})
        here = Transcript(home | {"HOOKWRIGHT_API_KEY": KEY, "HOOKWRIGHT_API_URL": service.url})
        for commands in (allowed, here):
            assert commands.quiet("send", "delivered").exit_code == 4
        contexts = tmp_path / ".config" / "hookwright" / "config.yaml"
        contexts.parent.mkdir(parents=True)
        contexts.write_text(f"current: prod\ncontexts: {{prod: {{url: '{anywhere}'}}}}\n")
        logged_in = Transcript(home | {"HOOKWRIGHT_API_KEY": KEY})
        assert logged_in.quiet("send", "delivered").exit_code == 4
        (contexts.parent / "credentials.json").write_text(f'{{"prod": "{KEY}"}}')
        elsewhere = anywhere.replace("0.0.0.0", "0.0.0.1")
        assert logged_in.quiet("send", "delivered", "--context", "prod", "--url", elsewhere).exit_code == 2
    assert len(service.requests) == 3


@pytest.mark.parametrize("host", ["localhost", "api.localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_loopback_needs_no_encryption(host: str) -> None:
    """The requests do not leave the machine."""
    assert is_loopback(host)
