"""Settings from the environment."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from hookwright_api.settings import ApiSettings
from hookwright_runtime.errors import SettingsError


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUSTED_PROXIES", "SESSION_TTL", "WATCH_NAMESPACES", "RATE_LIMIT_URL"):
        monkeypatch.delenv(f"HOOKWRIGHT_{name}", raising=False)


def test_lists_networks_and_durations_are_read_from_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values have the form of a Deployment's environment."""
    monkeypatch.setenv("HOOKWRIGHT_TRUSTED_PROXIES", "10.0.0.0/8, fd00::/8")
    monkeypatch.setenv("HOOKWRIGHT_SESSION_TTL", "1h30m")
    monkeypatch.setenv("HOOKWRIGHT_WATCH_NAMESPACES", "acme,rival")
    settings = ApiSettings.load()
    assert settings.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.session_ttl == timedelta(minutes=90)
    assert settings.watch_namespaces == ("acme", "rival")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
        ("SESSION_TTL", "12"),
        ("SESSION_TTL", "0s"),
        ("RATE_LIMIT_URL", "memcached://x"),
        ("RATE_LIMIT_IP", "-1"),
        ("OPERATOR_URL", "operator:8080"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The process does not start, and the error names the setting."""
    monkeypatch.setenv(f"HOOKWRIGHT_{name}", value)
    with pytest.raises(SettingsError, match=f"HOOKWRIGHT_{name}"):
        ApiSettings.load()


def test_the_defaults_are_the_promised_limits() -> None:
    """The defaults are 100 a minute for an address, 1,000 for an organization, 12 hours for a session."""
    settings = ApiSettings.load()
    assert (settings.rate_limit_ip, settings.rate_limit_organization) == (100, 1000)
    assert settings.session_ttl == timedelta(hours=12)
    assert settings.rate_limit_url == "memory://"


def test_the_namespace_of_users_follows_that_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting replaces the derived name."""
    for name in ("NAMESPACE", "USERS_NAMESPACE"):
        monkeypatch.delenv(f"HOOKWRIGHT_{name}", raising=False)
    assert ApiSettings.load().users_namespace == "hookwright-system-users"
    monkeypatch.setenv("HOOKWRIGHT_NAMESPACE", "hooks")
    assert ApiSettings.load().users_namespace == "hooks-users"
    monkeypatch.setenv("HOOKWRIGHT_USERS_NAMESPACE", "people")
    assert ApiSettings.load().users_namespace == "people"
