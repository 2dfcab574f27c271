"""Settings are read from the environment, checked as a whole, and have clear errors."""

import ipaddress
import os

import pytest

from hookwright_operator.settings import OperatorSettings
from hookwright_runtime.errors import SettingsError


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from an environment without settings."""
    for name in list(os.environ):
        if name.startswith("HOOKWRIGHT_"):
            monkeypatch.delenv(name)


def load_with(monkeypatch: pytest.MonkeyPatch, **environment: str) -> OperatorSettings:
    """Load the settings from an environment; names without their prefix."""
    for name, value in environment.items():
        monkeypatch.setenv(f"HOOKWRIGHT_{name}", value)
    return OperatorSettings.load()


def test_without_any_setting_the_operator_is_safe() -> None:
    """The defaults: only https, no special network, the documented schedule, and a lease longer than any attempt."""
    settings = OperatorSettings.load()
    assert not settings.allow_http
    assert settings.allowed_networks == settings.allowed_hosts == ()
    assert not settings.traces
    assert not settings.traces_to_receivers
    assert settings.watch_namespaces == ()
    assert settings.retry_schedule.delays_ms == (30_000, 120_000, 600_000, 1_800_000, 7_200_000)
    assert settings.lease > 30


def test_settings_are_read_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are separated by commas, blanks are ignored, and an empty value counts as not set."""
    settings = load_with(
        monkeypatch,
        WATCH_NAMESPACES=" acme , globex,",
        ALLOWED_NETWORKS="127.0.0.0/8, ::1/128",
        ALLOWED_HOSTS="*.Hooks.svc.cluster.local., .example.com",
        RETRY_SCHEDULE="200ms,1s",
        ALLOW_HTTP="true",
        LEASE="36.1",
        DATABASE_URL="",
    )
    assert settings.watch_namespaces == ("acme", "globex")
    assert settings.allowed_networks == (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
    assert settings.allowed_hosts == ("hooks.svc.cluster.local", "example.com")
    assert settings.retry_schedule.delays_ms == (200, 1000)
    assert settings.allow_http
    assert settings.lease == 36.1
    assert settings.database_url == "sqlite:////var/lib/hookwright/hookwright.db"


WRONG = {
    "a lease without time for an attempt before its renewal": (
        {"LEASE": "36"},
        [
            "HOOKWRIGHT_LEASE is 36 s; it must be longer than 36 s",
            "longer than the longest attempt, HOOKWRIGHT_MAX_TIMEOUT of 30 s",
            "after a sixth",
        ],
    ),
    "a lease as long as the longest attempt of this installation": (
        {"LEASE": "2.4", "MAX_TIMEOUT": "2"},
        ["HOOKWRIGHT_LEASE is 2.4 s", "HOOKWRIGHT_MAX_TIMEOUT of 2 s"],
    ),
    "a maximum that no endpoint may declare": ({"MAX_TIMEOUT": "31"}, ["HOOKWRIGHT_MAX_TIMEOUT: ", "30"]),
    "a maximum below the shortest timeout": ({"MAX_TIMEOUT": "0.5"}, ["HOOKWRIGHT_MAX_TIMEOUT: ", "1"]),
    "a lease that is shorter": ({"LEASE": "0.5"}, ["HOOKWRIGHT_LEASE is 0.5 s", "longer than the longest attempt"]),
    "a lease that is no number": ({"LEASE": "long"}, ["HOOKWRIGHT_LEASE: ", "valid number"]),
    "a lease that is no length": ({"LEASE": "-1"}, ["HOOKWRIGHT_LEASE: ", "greater than 0"]),
    "a network with host bits": ({"ALLOWED_NETWORKS": "10.0.0.1/8"}, ["HOOKWRIGHT_ALLOWED_NETWORKS: "]),
    "a network that is none": ({"DENIED_NETWORKS": "10.0.0.0/8,nowhere"}, ["HOOKWRIGHT_DENIED_NETWORKS: "]),
    "a host that is a URL": (
        {"ALLOWED_HOSTS": "hooks.example.com,https://example.com"},
        ["HOOKWRIGHT_ALLOWED_HOSTS: 'https://example.com' is not a domain", "such as hooks.svc.cluster.local"],
    ),
    "a pattern of namespaces": ({"WATCH_NAMESPACES": "acme,globex-*"}, ["HOOKWRIGHT_WATCH_NAMESPACES: ", "a-z0-9"]),
    "every host": ({"DENIED_HOSTS": "*"}, ["HOOKWRIGHT_DENIED_HOSTS: '*' is not a domain"]),
    "a collector without a scheme": ({"TRACES": "otel-collector:4318"}, ["HOOKWRIGHT_TRACES: ", "https?://"]),
    "a collector with a password": ({"TRACES": "http://a:b@otel-collector"}, ["HOOKWRIGHT_TRACES: "]),
    "a schedule that is none": (
        {"RETRY_SCHEDULE": "30s,soon"},
        ["HOOKWRIGHT_RETRY_SCHEDULE: 'soon' in the retry schedule is not a duration", "as in 30s or 2m"],
    ),
    "a schedule of blanks": ({"RETRY_SCHEDULE": " "}, ["HOOKWRIGHT_RETRY_SCHEDULE: the retry schedule is empty"]),
    "a delay out of bounds": ({"RETRY_SCHEDULE": "0s"}, ["HOOKWRIGHT_RETRY_SCHEDULE: '0s'", "from 1ms to 30d"]),
    "a port out of bounds": ({"INTAKE_PORT": "70000"}, ["HOOKWRIGHT_INTAKE_PORT: ", "65535"]),
    "a log format that does not exist": ({"LOG_FORMAT": "xml"}, ["HOOKWRIGHT_LOG_FORMAT: ", "json|console"]),
    "a window of nothing": ({"WINDOW": "0"}, ["HOOKWRIGHT_WINDOW: ", "greater than or equal to 1"]),
    "yes and no at once": ({"ALLOW_HTTP": "perhaps"}, ["HOOKWRIGHT_ALLOW_HTTP: "]),
    "a role that is none": (
        {"ROLES": "reconcile,serve", "DATABASE_URL": "postgresql://db/hookwright"},
        ["HOOKWRIGHT_ROLES: 'serve' is not a role; the roles are reconcile, deliver, intake"],
    ),
    "a process without a role": ({"ROLES": ","}, ["HOOKWRIGHT_ROLES: names no role; set one or more of reconcile"]),
    "a file for several processes": (
        {"ROLES": "intake"},
        ["HOOKWRIGHT_ROLES lacks reconcile, deliver", "with SQLite one replica has every role"],
    ),
    "several at once": ({"WINDOW": "0", "ALLOW_HTTP": "perhaps"}, ["HOOKWRIGHT_WINDOW: ", "HOOKWRIGHT_ALLOW_HTTP: "]),
}


@pytest.mark.parametrize(("environment", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_setting_is_refused_with_its_name_and_what_would_be_right(
    environment: dict[str, str], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the variable and the error, and each case's name describes it."""
    with pytest.raises(SettingsError) as error:
        load_with(monkeypatch, **environment)
    for part in told:
        assert part in str(error.value)


def test_a_process_has_every_role_or_those_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the roles makes no difference."""
    assert OperatorSettings.load().roles == ("reconcile", "deliver", "intake")
    parts = load_with(monkeypatch, ROLES="intake, reconcile", DATABASE_URL="postgresql://db/hookwright")
    assert parts.roles == ("reconcile", "intake")
    assert (
        load_with(monkeypatch, ROLES="intake,deliver,reconcile", DATABASE_URL="").roles == OperatorSettings.load().roles
    )


def test_a_refusal_does_not_repeat_a_database_s_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings may contain credentials, and error messages are logged."""
    monkeypatch.setenv("HOOKWRIGHT_DATABASE_URL", "postgresql://hookwright:hunter2@db/hookwright")
    with pytest.raises(SettingsError) as error:
        load_with(monkeypatch, LEASE="1", WINDOW="0")
    assert "hunter2" not in str(error.value)


def test_settings_cannot_be_changed() -> None:
    """The checked settings do not change while the process runs."""
    with pytest.raises(ValueError, match="frozen"):
        OperatorSettings.load().lease = 1.0  # type: ignore[misc]
