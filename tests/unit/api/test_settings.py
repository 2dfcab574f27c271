"""Settings from the environment."""

from datetime import timedelta
from ipaddress import ip_network

import pytest

from hookwright_api.settings import ApiSettings
from hookwright_runtime.errors import SettingsError


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUSTED_PROXIES", "SESSION_TTL", "WATCH_NAMESPACES", "RATE_LIMIT_URL", "CORS_ORIGINS"):
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


def test_origins_are_read_as_browsers_send_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """No origin is allowed by default."""
    assert ApiSettings.load().cors_origins == ()
    origins = ("https://console.example.com", "http://localhost:5173", "https://[2001:db8::1]:8443")
    monkeypatch.setenv("HOOKWRIGHT_CORS_ORIGINS", ", ".join(origins))
    assert ApiSettings.load().cors_origins == origins


@pytest.mark.parametrize(
    "wrong",
    [
        "*",
        "null",
        "console.example.com",
        "https://console.example.com/",
        "https://console.example.com/app",
        "https://*.example.com",
        "https://Console.example.com",
        "https://console.example.com:443",
        "http://console.example.com:80",
        "ftp://console.example.com",
        "https://console.example.com https://other.example.com",
    ],
)
def test_a_wrong_origin_is_named(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """A browser never sends it, so the setting would have no effect, or one that nobody wants."""
    monkeypatch.setenv("HOOKWRIGHT_CORS_ORIGINS", f"https://good.example.com,{wrong}")
    with pytest.raises(SettingsError) as refused:
        ApiSettings.load()
    assert str(refused.value).startswith(f"HOOKWRIGHT_CORS_ORIGINS: {wrong!r} is not an origin")


def test_an_origin_with_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the log of the process."""
    monkeypatch.setenv("HOOKWRIGHT_CORS_ORIGINS", "https://ada:hunter2@example.com")
    with pytest.raises(SettingsError, match="HOOKWRIGHT_CORS_ORIGINS: an origin with @") as refused:
        ApiSettings.load()
    assert "hunter2" not in str(refused.value)
