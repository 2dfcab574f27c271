"""The choice of the way into Hookwright: options, then variables, then the current context, then the kubeconfig."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookwright_cli import contexts, kept_credentials
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contexts import Context

if TYPE_CHECKING:
    from hookwright_cli.ways.api_way import ApiWay
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay
    from hookwright_cli.ways.way import Way

API, KUBECONFIG = "api", "kubeconfig"
DEFAULT_INSTALLATION = "hookwright-system"
DEFAULT_ACCOUNT = "hookwright-support"


@dataclass(frozen=True, slots=True)
class WayOptions:
    """The options of a command that choose the way; empty means not given."""

    way: str = ""
    context: str = ""
    url: str = ""
    project: str = ""
    namespace: str = ""
    kubeconfig: str = ""
    kube_context: str = ""
    installation: str = ""
    service_account: str = ""
    plugin: bool = False


def chosen(options: WayOptions, environ: Mapping[str, str] | None = None) -> tuple[str, Context]:
    """Return the kind of the way, and its context after options and variables.

    Raises:
        CommandError: the way is not known, or the context does not exist.
    """
    environ = os.environ if environ is None else environ
    if options.way not in {"", API, KUBECONFIG}:
        raise CommandError(f"--way {options.way!r} must be api or kubeconfig", ExitCode.USAGE)
    kept = _kept(options, environ)
    given_cluster = options.kubeconfig or options.kube_context or (options.plugin and options.context)
    url = options.url or (kept.url if kept.name else "") or environ.get("HOOKWRIGHT_API_URL", "")
    by_variables = bool(environ.get("HOOKWRIGHT_API_KEY")) and bool(url)
    if options.way:
        kind = options.way
    elif given_cluster:
        kind = KUBECONFIG
    elif options.url or kept.url:
        kind = API
    elif kept.name or options.plugin:
        kind = KUBECONFIG
    else:
        kind = API if by_variables else KUBECONFIG
    return kind, Context(
        name=kept.name,
        url=url,
        project=options.project or environ.get("HOOKWRIGHT_PROJECT", "") or kept.project,
        email=kept.email,
        expires_at=kept.expires_at,
        kubeconfig=options.kubeconfig or kept.kubeconfig,
        kube_context=options.kube_context or (options.context if options.plugin else "") or kept.kube_context,
        namespace=options.namespace or environ.get("HOOKWRIGHT_NAMESPACE", "") or kept.namespace,
    )


def _kept(options: WayOptions, environ: Mapping[str, str]) -> Context:
    """Return the selected context of the configuration, one without a name if there is none."""
    if options.plugin:
        return Context(name="")
    name = options.context or environ.get("HOOKWRIGHT_CONTEXT", "")
    by_variables = environ.get("HOOKWRIGHT_API_KEY") and environ.get("HOOKWRIGHT_API_URL")
    if not name and (options.url or options.kubeconfig or options.kube_context or by_variables):
        return Context(name="")
    known = contexts.load()
    name = name or known.current
    return known.get(name) if name else Context(name="")


def open_way(options: WayOptions) -> "Way":
    """Return the chosen way."""
    kind, context = chosen(options)
    return open_api(options, context) if kind == API else open_kubeconfig(options, context)


def open_api(options: WayOptions, context: Context) -> "ApiWay":
    """Return the way by ``/v1``.

    Raises:
        CommandError: there is no URL or no credential.
    """
    from hookwright_cli.ways.api_way import ApiWay

    login = "`hookwright login --url URL`, or set HOOKWRIGHT_API_URL and HOOKWRIGHT_API_KEY"
    if not context.url:
        raise CommandError("the URL of /v1 is not known", ExitCode.USAGE, hint=login)
    # A context that an option names has its own credential.
    given = "" if options.context else os.environ.get("HOOKWRIGHT_API_KEY", "")
    credential = given or (kept_credentials.kept(context.name) if context.name else "")
    if not credential:
        raise CommandError(f"no credential for {context.url}", ExitCode.FORBIDDEN, hint=login)
    return ApiWay(context.url, credential, context.project)


def installation_of(options: WayOptions) -> str:
    """Return the namespace of Hookwright."""
    return options.installation or os.environ.get("HOOKWRIGHT_INSTALLATION", "") or DEFAULT_INSTALLATION


def open_kubeconfig(options: WayOptions, context: Context) -> "KubeconfigWay":
    """Return the way by a kubeconfig."""
    from hookwright_cli.ways.cluster_client import ClusterClient
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

    return KubeconfigWay(
        ClusterClient(context.kubeconfig, context.kube_context),
        namespace=context.namespace,
        project=context.project,
        installation=installation_of(options),
        account=options.service_account or os.environ.get("HOOKWRIGHT_SERVICE_ACCOUNT", "") or DEFAULT_ACCOUNT,
        everywhere=not options.namespace,
    )
