"""The way that a command uses is named, and a saved login replaces the kubeconfig only with a word about it."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.api_receiver import receiving
from support.command_transcripts import Transcript
from support.kubeconfig import write_kubeconfig

from hookwright_cli import contexts
from hookwright_cli.contexts import Context, Contexts
from hookwright_cli.way_choice import WayOptions, chosen
from hookwright_dev.cluster import stack

URL = "https://hooks.example.com"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Transcript:
    """Return commands of a user with a kubeconfig and the current context ``globex``, which has a login."""
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", "t", context="kind", namespace="acme")
    environment = {"HOOKWRIGHT_CONFIG_FOLDER": str(tmp_path / "hookwright"), "HOOKWRIGHT_KEYRING": "off"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    save(URL)
    return Transcript({**environment, "KUBECONFIG": str(tmp_path / "kubeconfig")})


def save(url: str) -> None:
    """Save a login as the current context."""
    contexts.save(Contexts("globex", {"globex": Context("globex", url=url, email="ada@x", namespace="globex")}))
    contexts.keep("globex", "token")


def test_a_namespace_is_refused_through_v1(commands: Transcript) -> None:
    """`-n acme` with a login of globex shows nothing of globex, and the message names both ways."""
    refusal = commands.quiet("status", "-n", "acme")
    assert (refusal.exit_code, refusal.stdout) == (8, "")
    assert f"-n acme does not work through /v1 at {URL}" in refusal.stderr
    assert "--way=kubeconfig" in refusal.stderr


@pytest.mark.parametrize(("way", "place"), [("api", "organization globex;"), ("kubeconfig", "namespace globex,")])
def test_the_namespace_of_an_installation_is_no_organization(commands: Transcript, way: str, place: str) -> None:
    """In a pod the variable names the installation's own namespace; the context decides the organization."""
    with receiving() as service:
        service.status = 401
        save(service.url)
        commands.environment["HOOKWRIGHT_NAMESPACE"] = "hookwright-system"
        assert place in commands.quiet("endpoints", "list", "--way", way).stderr


def test_an_error_names_the_way_and_how_to_leave_it(commands: Transcript) -> None:
    """Server and organization are those that refused; each way names the other one."""
    with receiving() as service:
        service.status = 401
        save(service.url)
        by_api = commands.quiet("endpoints", "list")
    assert f"way: /v1 at {service.url}, organization globex; --way=kubeconfig leaves it" in by_api.stderr
    assert "`hookwright contexts delete globex`" in by_api.stderr
    by_kubeconfig = commands.quiet("endpoints", "list", "--way", "kubeconfig", "-n", "acme")
    assert by_kubeconfig.exit_code == 6
    assert "way: kubeconfig, cluster kind, namespace acme, installation hookwright-system; " in by_kubeconfig.stderr
    assert "hookwright login --url URL" in by_kubeconfig.stderr


def test_after_a_logout_no_command_uses_the_kubeconfig_in_silence(commands: Transcript) -> None:
    """The context stays without a credential; its deletion is the user's word for the kubeconfig."""
    assert commands.quiet("logout").exit_code == 0
    for arguments in (("status",), ("endpoints", "list"), ("logout",)):
        refusal = commands.quiet(*arguments)
        assert refusal.exit_code == 4
        assert f"not logged in to {URL} (context globex)" in refusal.stderr
        assert "hookwright contexts delete globex" in refusal.stderr
    commands.quiet("contexts", "delete", "globex")
    assert "way: kubeconfig" in commands.quiet("endpoints", "list").stderr


def test_a_key_in_a_variable_counts_after_a_logout_and_the_way_out_removes_both(commands: Transcript) -> None:
    """With a login and a key, as after the first delivery, each printed command does what it says."""
    commands.environment |= {"HOOKWRIGHT_API_KEY": "hw_k7q2m9x0a3b5_secret", "HOOKWRIGHT_API_URL": URL}
    refusal = commands.quiet("status", "-n", "acme")
    assert "for all commands `unset HOOKWRIGHT_API_KEY; hookwright contexts delete globex`" in refusal.stderr
    assert "HOOKWRIGHT_API_KEY is set, and commands still use it" in commands.quiet("logout").stdout


def test_a_shell_of_make_up_has_a_configuration_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shell that reads .dev/env, an earlier login and key count for nothing."""
    monkeypatch.setattr(stack, "ENV_FILE", tmp_path / "env")
    process = SimpleNamespace(pid=1)
    server = SimpleNamespace(intake_url="http://i", health_url="http://h", url=URL, running=process)
    plane = SimpleNamespace(kubeconfig=tmp_path / "kubeconfig", assets=SimpleNamespace(kubectl=tmp_path / "kubectl"))
    stack.Stack(cast("Any", plane), cast("Any", server), cast("Any", server), "token").write_env()
    program = f". {tmp_path / 'env'}; env"
    earlier = {"HOOKWRIGHT_API_KEY": "hw_", "HOOKWRIGHT_CONTEXT": "prod", "PATH": os.environ["PATH"]}
    shell = subprocess.run(["bash", "-c", program], env=earlier, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in shell.stdout.splitlines())
    monkeypatch.setattr(os, "environ", variables)
    assert contexts.folder().parent == stack.DEV / "config"
    assert chosen(WayOptions())[0] == "kubeconfig"


@pytest.mark.parametrize("arguments", [("-n", "acme", "endpoints", "list"), ("endpoints", "list", "-n", "acme")])
def test_an_option_may_be_before_the_verb(commands: Transcript, arguments: tuple[str, ...]) -> None:
    """As with kubectl, the place of an option does not matter; the one after the verb replaces the other."""
    assert "namespace acme" in commands.quiet("--way", "kubeconfig", *arguments).stderr
    result = commands.quiet("--way", "api", "endpoints", "list", "--way", "kubeconfig", "-n", "acme")
    assert "way: kubeconfig" in result.stderr


@pytest.mark.parametrize("verb", ["endpoints delete", "keys revoke", "users delete"])
@pytest.mark.parametrize("name", ["", "."])
def test_a_name_that_is_none_deletes_nothing(commands: Transcript, verb: str, name: str) -> None:
    """The path of such an object would be that of all objects; nothing is sent to the cluster."""
    assert commands.quiet(*verb.split(), name, "--yes", "--way=kubeconfig", "-n", "acme").exit_code == 2
