"""Every setting of both processes is a value of the chart, and reaches the process unchanged."""

from typing import Any

import pytest
import yaml
from pydantic_settings import BaseSettings
from support.chart_rendering import CHART, Chart, environment, golden, named

from hookwright_api.settings import ApiSettings
from hookwright_dev.chart.settings import (
    OF_THE_LAYOUT,
    PROCESSES,
    camel_case,
    chart_settings,
    values_block,
    values_schema,
)
from hookwright_operator.settings import OperatorSettings

CHOSEN: dict[str, Any] = {
    "watchNamespaces": ["acme", "globex"],
    "allowedNetworks": ["10.0.0.0/8", "fd00::/8"],
    "trustedProxies": ["192.0.2.0/24"],
    "retrySchedule": "1s,1h30m",
    "memoryLimit": 1073741824,
    "allowHttp": True,
    "rateLimitIp": 0,
    "rateLimitFailOpen": False,
    "sessionTtl": "1h30m",
    "lease": 45.5,
    "logFormat": "console",
    "operatorUrl": "http://elsewhere:8080",
}


def _started(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], process: type[BaseSettings]) -> BaseSettings:
    """Return the settings of a process that starts with these variables."""
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        return process()


@pytest.mark.parametrize("component", PROCESSES)
def test_every_setting_has_a_value_and_a_schema(component: str) -> None:
    """A setting in a class without a value in values.yaml fails here."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())["settings"]
    names = {camel_case(field) for field in PROCESSES[component].model_fields if field not in OF_THE_LAYOUT}
    assert names <= set(values)
    assert set(values) == {setting.name for setting in chart_settings()}


def test_a_new_setting_changes_what_is_generated() -> None:
    """The generator reads the classes: the drift check notices a setting that was added to one."""

    class Grown(OperatorSettings):
        new_setting: int = 7

    settings = chart_settings({"operator": Grown})
    assert "  newSetting: 7\n" in values_block(settings)
    assert "newSetting" in values_schema(settings)["properties"]


@pytest.mark.parametrize(("component", "process"), PROCESSES.items())
def test_an_installation_as_it_is_runs_with_the_defaults(
    monkeypatch: pytest.MonkeyPatch, component: str, process: type[BaseSettings]
) -> None:
    """The values are the processes' own defaults; only those that depend on the release differ."""
    process_settings = _started(monkeypatch, environment(golden("default"), component), process)
    assert process_settings == process()


def test_chosen_settings_arrive(chart: Chart, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists, large numbers, zero, false and durations reach the processes with their meaning."""
    objects = chart.objects({"settings": CHOSEN}, namespace="elsewhere")
    operator = _started(monkeypatch, environment(objects, "operator"), OperatorSettings)
    api = _started(monkeypatch, environment(objects, "api"), ApiSettings)
    assert isinstance(operator, OperatorSettings)
    assert isinstance(api, ApiSettings)
    assert operator.watch_namespaces == api.watch_namespaces == ("acme", "globex")
    assert [str(network) for network in operator.allowed_networks] == CHOSEN["allowedNetworks"]
    assert [str(network) for network in api.trusted_proxies] == CHOSEN["trustedProxies"]
    assert operator.retry_schedule.delays_ms == (1000, 5_400_000)
    assert (operator.memory_limit, operator.lease, operator.allow_http) == (1 << 30, 45.5, True)
    assert (api.rate_limit_ip, api.rate_limit_fail_open, api.session_ttl.total_seconds()) == (0, False, 5400)
    assert (operator.namespace, api.namespace, api.operator_url) == ("elsewhere", "elsewhere", "http://elsewhere:8080")


def test_the_api_finds_the_operator_of_its_release(chart: Chart) -> None:
    """Without an operatorUrl, the API calls the Service of the release on the port that the operator listens on."""
    objects = chart.objects({"fullnameOverride": "hooks", "settings": {"intakePort": 8888}})
    deployment = named(objects, "Deployment", "hooks-api")
    variables = {
        item["name"]: item.get("value") for item in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert variables["HOOKWRIGHT_OPERATOR_URL"] == "http://hooks-operator:8888"
    assert "HOOKWRIGHT_DATABASE_URL" not in variables
