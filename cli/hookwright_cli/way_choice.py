"""The choice of the way into Hookwright: options, then variables, then the current context, then the kubeconfig."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from hookwright_cli import contexts, kept_credentials
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contexts import Context

if TYPE_CHECKING:
    from hookwright_cli.ways.api_way import ApiWay
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

    Way: TypeAlias = ApiWay | KubeconfigWay

API, KUBECONFIG = "api", "kubeconfig"
DEFAULT_INSTALLATION = "hookwright-system"
DEFAULT_ACCOUNT = "hookwright-support"
INSECURE: Final = "HOOKWRIGHT_INSECURE"
"""Variable: ``true`` allows a credential on an http:// URL that leaves this machine."""


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

    @property
    def scope(self) -> str:
        """The option that a printed command needs to find the same object."""
        return f" -n {self.namespace}" if self.namespace else ""


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
    return kind, replace(
        kept,
        url=url,
        project=options.project or environ.get("HOOKWRIGHT_PROJECT", "") or kept.project,
        kubeconfig=options.kubeconfig or kept.kubeconfig,
        kube_context=options.kube_context or (options.context if options.plugin else "") or kept.kube_context,
        namespace=options.namespace or kept.namespace,
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
        CommandError: there is no URL or no credential, the credential would be sent without encryption, or an option
            needs the other way.
    """
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
    given = "" if options.context else os.environ.get("HOOKWRIGHT_API_KEY", "")
    credential = given or (kept_credentials.kept(context.name) if context.name else "")
    if not credential:
        raise not_logged_in(context)
    # The user who logged in there has allowed the URL of a context.
    if not context.name or contexts.load().get(context.name).url != context.url:
        check_encryption(context.url, hint=f"if you trust the whole network, set {INSECURE}=true")
    return ApiWay(context.url, credential, context.project, organization=context.namespace if not given else "")


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
        known = contexts.load()
        name = known.current if known.current and known.get(known.current).url else ""
        commands = ["unset HOOKWRIGHT_API_KEY"]
    if name:
        commands.append(f"hookwright contexts delete {name}")
    forever = f", or for all commands `{'; '.join(commands)}`" if commands else ""
    return f"--way=kubeconfig leaves it{forever}"


def check_encryption(url: str, *, hint: str) -> None:
    """Return if a credential may be sent to a URL.

    Args:
        url: of the service.
        hint: how to allow a URL that has no encryption.

    Raises:
        CommandError: the URL has no encryption and leaves this machine, and the variable does not allow it.
    """
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


def installation_of(options: WayOptions) -> str:
    """Return the namespace of Hookwright; in a pod it is by default the namespace of the pod."""
    from hookwright_cli.ways.cluster_client import pod_namespace

    chosen_name = options.installation or os.environ.get("HOOKWRIGHT_INSTALLATION", "")
    return chosen_name or pod_namespace() or DEFAULT_INSTALLATION


def users_namespace_of(options: WayOptions) -> str:
    """Return the namespace of users, which the installation's setting of the same name may change."""
    from hookwright_cli.ways.user_form import users_namespace

    return os.environ.get("HOOKWRIGHT_USERS_NAMESPACE", "") or users_namespace(installation_of(options))


def open_kubeconfig(options: WayOptions, context: Context) -> "KubeconfigWay":
    """Return the way by a kubeconfig."""
    from hookwright_cli.ways.cluster_client import ClusterClient
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

    return KubeconfigWay(
        ClusterClient(context.kubeconfig, context.kube_context),
        namespace=context.namespace,
        project=context.project,
        installation=installation_of(options),
        users_namespace=users_namespace_of(options),
        account=options.service_account or os.environ.get("HOOKWRIGHT_SERVICE_ACCOUNT", "") or DEFAULT_ACCOUNT,
        everywhere=not options.namespace,
    )
