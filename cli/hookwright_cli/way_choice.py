"""The choice of the way into Hookwright: options, then variables, then the current context, then the kubeconfig."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, get_type_hints
from urllib.parse import urlsplit

import typer

from hookwright_cli import contexts
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contexts import Context
from hookwright_cli.deadline import DEADLINE

if TYPE_CHECKING:
    from hookwright_cli.ways.api_way import ApiWay
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

    Way: TypeAlias = ApiWay | KubeconfigWay

API, KUBECONFIG = "api", "kubeconfig"
DEFAULT_ACCOUNT = "hookwright-support"
INSECURE: Final = "HOOKWRIGHT_INSECURE"
"""Variable: ``true`` allows a credential on an http:// URL that leaves this machine."""
_MOST_SUGGESTIONS = 100
_COMPLETION_SECONDS = 5.0
Completion: TypeAlias = Callable[[typer.Context, str], list[str]]


def is_plugin() -> bool:
    """Return whether this process is ``kubectl hookwright``."""
    return os.path.basename(sys.argv[0]).startswith("kubectl")  # noqa: PTH119 - a name, no path


def option(names: str, metavar: str | None, text: str, **settings: Any) -> Any:
    """Return an option of a command, with its names in one text; the words of ``json|yaml`` as metavar complete."""
    words = [word for word in (metavar or "").split("|") if word.isalpha() and word.islower()]
    if words:
        settings = {"autocompletion": completed(lambda _: words), **settings}
    return typer.Option(*names.split(), metavar=metavar, help=text, **settings)


def completed(read: Callable[["WayOptions"], Iterable[str]], *, separator: str = "") -> Completion:
    """Return the shell completion of a value. It never fails: then it has no suggestions.

    Args:
        read: the possible values, for the options of the command line.
        separator: between values in one word, of which the last one is completed.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        before_the_verb = ctx.find_root().params
        options: dict[str, Any] = {
            name: str(ctx.params.get(name) or before_the_verb.get(name) or "") for name in OPTIONS
        }
        beginning = incomplete[: incomplete.rfind(separator) + 1] if separator else ""
        # A completion that fails must print nothing: the shell would show it inside the command line.
        with suppress(Exception):
            # A shell waits for the answer while the user types.
            DEADLINE.notice_seconds = None
            DEADLINE.begin(_COMPLETION_SECONDS)
            values = (beginning + value for value in read(WayOptions(**options)))
            return [value for value in values if value.startswith(incomplete)][:_MOST_SUGGESTIONS]
        return []

    return complete


def completed_by(read: Callable[["Way"], Iterable[str]]) -> Completion:
    """Return the completion of names that the way knows."""

    def names(options: "WayOptions") -> list[str]:
        with closing(open_way(options)) as way:
            return list(read(way))

    return completed(names)


def _kube_contexts(options: "WayOptions") -> list[str]:
    from kubernetes.config import list_kube_config_contexts

    file = options.kubeconfig or os.environ.get("KUBECONFIG") or None
    return [str(context["name"]) for context in list_kube_config_contexts(file)[0]]


# As a plugin of kubectl, --context names a context of the kubeconfig.
context_names = completed(lambda options: _kube_contexts(options) if options.plugin else contexts.load().by_name)
project_names = completed_by(lambda way: way.project_names())
namespaces = completed_by(lambda way: way.cluster.names("/api/v1/namespaces") if way.kind != "api" else [])


_way = partial(option, rich_help_panel="Way into Hookwright")
_INSTALLATION = "Namespace of Hookwright, by default that of the pod, or hookwright-system."
_ACCOUNT = "ServiceAccount whose rights are used on the intake, by default hookwright-support."


@dataclass(frozen=True, slots=True)
class WayOptions:
    """The options of a command that choose the way; empty means not given."""

    way: Annotated[str, _way("--way", "api|kubeconfig", "The way in, instead of the usual choice.")] = ""
    context: Annotated[
        str, _way("--context", "NAME", "A context of `hookwright contexts list`.", autocompletion=context_names)
    ] = ""
    url: Annotated[str, _way("--url", "URL", "Use /v1 at this URL, with HOOKWRIGHT_API_KEY.")] = ""
    project: Annotated[
        str, _way("--project -p", "NAME", "The project, if there are several.", autocompletion=project_names)
    ] = ""
    namespace: Annotated[
        str, _way("--namespace -n", "NAME", "The organization, which is a namespace.", autocompletion=namespaces)
    ] = ""
    kubeconfig: Annotated[str, _way("--kubeconfig", "FILE", "Use this kubeconfig.")] = ""
    kube_context: Annotated[
        str,
        _way("--kube-context", "NAME", "Use this context of the kubeconfig.", autocompletion=completed(_kube_contexts)),
    ] = ""
    installation: Annotated[str, _way("--installation", "NAMESPACE", _INSTALLATION, autocompletion=namespaces)] = ""
    service_account: Annotated[str, _way("--service-account", "[NAMESPACE/]NAME", _ACCOUNT)] = ""
    plugin: bool = field(default_factory=is_plugin)

    @property
    def scope(self) -> str:
        """The option that a printed command needs to find the same object."""
        return f" -n {self.namespace}" if self.namespace else ""


OPTIONS: Final = {
    name: option for name, option in get_type_hints(WayOptions, include_extras=True).items() if name != "plugin"
}
"""The fields with their options."""


def chosen(options: WayOptions, environ: Mapping[str, str] | None = None) -> tuple[str, Context]:
    """Return the kind of the way, and its context after options and variables."""
    environ = os.environ if environ is None else environ
    if options.way not in {"", API, KUBECONFIG}:
        raise CommandError(f"--way {options.way!r} must be api or kubeconfig", ExitCode.USAGE)
    context = _saved(options, environ)
    names_cluster = options.kubeconfig or options.kube_context or (options.plugin and options.context)
    url = options.url or context.url or environ.get("HOOKWRIGHT_API_URL", "")
    by_variables = environ.get("HOOKWRIGHT_API_KEY") and url and not context.name and not options.plugin
    is_api = not names_cluster and (options.url or context.url or by_variables)
    return options.way or (API if is_api else KUBECONFIG), replace(
        context,
        url=url,
        project=options.project or environ.get("HOOKWRIGHT_PROJECT", "") or context.project,
        kubeconfig=options.kubeconfig or context.kubeconfig,
        kube_context=options.kube_context or (options.context if options.plugin else "") or context.kube_context,
        namespace=options.namespace or context.namespace,
    )


def _saved(options: WayOptions, environ: Mapping[str, str]) -> Context:
    """Return the selected context of the configuration, one without a name if there is none."""
    name = options.context or environ.get("HOOKWRIGHT_CONTEXT", "")
    by_variables = environ.get("HOOKWRIGHT_API_KEY") and environ.get("HOOKWRIGHT_API_URL")
    has_way = options.url or options.kubeconfig or options.kube_context or by_variables
    if options.plugin or (has_way and not name):
        return Context(name="")
    configuration = contexts.load()
    name = name or configuration.current
    return configuration.get(name) if name else Context(name="")


def open_way(options: WayOptions) -> "Way":
    """Return the chosen way."""
    kind, context = chosen(options)
    return _open_api(options, context) if kind == API else _open_kubeconfig(options, context)


def _open_api(options: WayOptions, context: Context) -> "ApiWay":
    """Return the way by ``/v1``."""
    from hookwright_cli.ways.api_way import ApiWay

    if not context.url:
        login = "`hookwright login --url URL`, or set HOOKWRIGHT_API_URL and HOOKWRIGHT_API_KEY"
        raise CommandError("the URL of /v1 is not known", ExitCode.USAGE, hint=login)
    if options.namespace:
        organization = f", which is that of {context.email or 'its key'}" if context.name else ""
        raise CommandError(
            f"-n {options.namespace} does not work through /v1 at {context.url}: the credential decides the "
            f"organization{organization}",
            ExitCode.OTHER_WAY,
            hint=f"leave -n out, or use the kubeconfig: {exit_of(API, context)}",
        )
    # A context that an option names has its own credential.
    key = "" if options.context else os.environ.get("HOOKWRIGHT_API_KEY", "")
    credential = key or (contexts.credential_of(context.name) if context.name else "")
    if not credential:
        raise not_logged_in(context)
    # The user who logged in there has allowed the URL of a context.
    if not context.name or contexts.load().get(context.name).url != context.url:
        check_encryption(context.url, hint=f"if you trust the whole network, set {INSECURE}=true")
    return ApiWay(context.url, credential, context.project, organization=context.namespace if not key else "")


def not_logged_in(context: Context) -> CommandError:
    """Return the error for a context or URL without a credential."""
    name = f" (context {context.name})" if context.name else ""
    return CommandError(
        f"not logged in to {context.url}{name}",
        ExitCode.FORBIDDEN,
        hint=f"`hookwright login --url {context.url}`, or set HOOKWRIGHT_API_KEY; {exit_of(API, context)}",
    )


def exit_of(kind: str, context: Context) -> str:
    """Return how a user leaves a way for the other one."""
    if kind == KUBECONFIG:
        return "--way=api leaves it, after `hookwright login --url URL`"
    commands, name = [], context.name
    if not name and os.environ.get("HOOKWRIGHT_API_KEY"):
        # Without the key, a login that is the current context would count.
        configuration = contexts.load()
        name = configuration.current if configuration.current and configuration.get(configuration.current).url else ""
        commands = ["unset HOOKWRIGHT_API_KEY"]
    if name:
        commands.append(f"hookwright contexts delete {name}")
    forever = f", or for all commands `{'; '.join(commands)}`" if commands else ""
    return f"--way=kubeconfig leaves it{forever}"


def check_encryption(url: str, *, hint: str) -> None:
    """Refuse a URL without encryption that leaves this machine, with a hint how to allow it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # The client refuses it too, and says why.
        return
    if parts.scheme != "http" or is_loopback(str(parts.hostname)) or os.environ.get(INSECURE, "").lower() == "true":
        return
    raise CommandError(
        f"http://{parts.hostname} has no encryption: others can read the credential on its way; use https://",
        ExitCode.USAGE,
        hint=hint,
    )


def is_loopback(host: str) -> bool:
    """Return whether requests to a host stay on this machine, by its name or literal address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def users_namespace_of(options: WayOptions) -> str:
    """Return the namespace of users, which the installation's setting of the same name may change."""
    return os.environ.get("HOOKWRIGHT_USERS_NAMESPACE", "") or f"{_installation_of(options)}-users"


def _installation_of(options: WayOptions) -> str:
    """Return the namespace of Hookwright; in a pod it is by default the namespace of the pod."""
    from hookwright_cli.ways.cluster_client import pod_namespace

    name = options.installation or os.environ.get("HOOKWRIGHT_INSTALLATION", "")
    return name or pod_namespace() or "hookwright-system"


def _open_kubeconfig(options: WayOptions, context: Context) -> "KubeconfigWay":
    from hookwright_cli.ways.cluster_client import ClusterClient
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

    return KubeconfigWay(
        ClusterClient(context.kubeconfig, context.kube_context),
        namespace=context.namespace,
        project=context.project,
        installation=_installation_of(options),
        users_namespace=users_namespace_of(options),
        account=options.service_account or os.environ.get("HOOKWRIGHT_SERVICE_ACCOUNT", "") or DEFAULT_ACCOUNT,
        everywhere=not options.namespace,
    )
