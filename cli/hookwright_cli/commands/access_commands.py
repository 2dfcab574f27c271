"""Access: ``login``, ``logout``, ``whoami``, ``contexts`` and ``support-account``."""

import os
import sys
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from hookwright_cli import contexts
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import answer, confirm, password
from hookwright_cli.contexts import Context
from hookwright_cli.parameters import Yes, argument
from hookwright_cli.terminal.columns import CONTEXTS
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import (
    API,
    DEFAULT_ACCOUNT,
    KUBECONFIG,
    check_encryption,
    chosen,
    context_names,
    exit_of,
    not_logged_in,
    option,
)

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
ContextName = Annotated[str, argument("NAME", autocompletion=context_names)]


def log_in(
    invocation: Invocation,
    email: Annotated[str, option("--email", "ADDRESS", "Log in as this user.")] = "",
    key: Annotated[bool, option("--key", None, "Keep an API key instead; it is read from standard input.")] = False,
    name: Annotated[str, option("--name", "NAME", "Name of the context, by default the host.")] = "",
    insecure: Annotated[
        bool, option("--insecure", None, "Send the credential without encryption to an http:// URL.")
    ] = False,
) -> None:
    """Log in to /v1 and keep the credential as the current context.

    The password or the key is read from standard input, or asked for. The keyring of your desktop keeps the
    credential, or a file that only you can read.
    """
    from hookwright_cli.ways.api_way import SENDING_KEY, ApiWay

    project = invocation.options.project
    url = _checked_url(invocation.options.url or os.environ.get("HOOKWRIGHT_API_URL", ""), insecure=insecure)
    if key and email:
        raise CommandError("log in with --email or with --key, not with both", ExitCode.USAGE)
    expires_at = ""
    if key:
        credential = password(repeat=False, prompt="API key").strip()
        if not credential.startswith("hw_"):
            raise CommandError("that is not an API key: it begins with hw_", ExitCode.USAGE)
    else:
        if not email and not sys.stdin.isatty():
            raise CommandError("name the user with --email, or send a key with --key", ExitCode.USAGE)
        email = email or answer("Email: ")
        with closing(ApiWay(url, "")) as way:
            session = way.call("POST", "auth", "login", body={"email": email, "password": password(repeat=False)})
        credential, expires_at = str(session["token"]), str(session["expires_at"])
    with closing(ApiWay(url, credential, project)) as way:
        me = way.me()
    context = Context(
        name=name or str(urlsplit(url).hostname),
        url=url,
        project=project,
        email=email,
        expires_at=expires_at,
        namespace=str(me.get("organization", "")),
    )
    configuration = contexts.load()
    place = contexts.keep(context.name, credential)
    _save_current(configuration, context)
    projects = ", ".join(entry["name"] for entry in me["projects"]) or "none"
    user = f"as {email}" if email else "with an API key"
    lines = [f"logged in to {url} {user}; projects: {projects}", f"context {context.name}, credential in {place}"]
    if not key:
        lines.append(f"to send events, make a key: {SENDING_KEY}")
    document = {"id": context.name, "url": url, "email": email, "credential": place}
    invocation.screen.one(document, "\n".join(lines))


def _save_current(configuration: contexts.Contexts, context: Context) -> None:
    configuration.by_name[context.name], configuration.current = context, context.name
    contexts.save(configuration)


def _checked_url(url: str, *, insecure: bool) -> str:
    """Return the URL of the service, raise CommandError if no credential may be sent there."""
    if not url:
        raise CommandError("name the service: hookwright login --url https://hooks.example.com", ExitCode.USAGE)
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise CommandError(f"--url {url!r} must begin with https://", ExitCode.USAGE)
    if not insecure:
        check_encryption(url, hint="if you trust the whole network, repeat the command with --insecure")
    return url


def log_out(
    invocation: Invocation,
    everywhere: Annotated[bool, option("--everywhere", None, "End all sessions of the user, on every device.")] = False,
) -> None:
    """Forget the credential of a context. The context stays, so that no command uses another way in silence."""
    configuration = contexts.load()
    name = invocation.options.context or configuration.current
    context = configuration.get(name) if name else Context(name="")
    if not context.url:
        raise CommandError("not logged in: no context has a login", ExitCode.NOT_FOUND)
    credential = contexts.credential_of(context.name)
    if not credential:
        raise not_logged_in(context)
    if everywhere:
        from hookwright_cli.ways.api_way import ApiWay

        with closing(ApiWay(context.url, credential)) as way:
            way.call("POST", "auth", "logout")
    contexts.forget(context.name)
    message = f"logged out of context {context.name}; {exit_of(API, context)}"
    if os.environ.get("HOOKWRIGHT_API_KEY"):
        message += "\nHOOKWRIGHT_API_KEY is set, and commands still use it: unset HOOKWRIGHT_API_KEY"
    invocation.screen.one({"id": context.name}, message)


def who_am_i(invocation: Invocation) -> None:
    """Show the way in, the user and the projects."""
    kind, context = chosen(invocation.options)
    document: dict[str, Any] = {"way": kind, "context": context.name, **invocation.way.identity()}
    pairs = [
        (name.replace("_", " ").capitalize(), ", ".join(value) if isinstance(value, list) else str(value))
        for name, value in document.items()
        if value
    ]
    invocation.screen.one(document, invocation.screen.pairs(pairs), name=str(document.get("email") or kind))


def list_contexts(invocation: Invocation) -> None:
    """List the contexts."""
    configuration = contexts.load()
    rows = [
        {
            "current": context.name == configuration.current,
            "name": context.name,
            "way": API if context.url else KUBECONFIG,
            "place": context.url or context.kube_context or context.kubeconfig,
            **{name: getattr(context, name) for name in ("project", "email", "namespace")},
        }
        for _, context in sorted(configuration.by_name.items())
    ]
    columns = CONTEXTS if invocation.screen.form != "name" else CONTEXTS[1:]
    invocation.screen.rows(rows, columns, none="There are no contexts: the current context of the kubeconfig is used.")


def use_context(invocation: Invocation, name: ContextName) -> None:
    """Make a context the current one."""
    configuration = contexts.load()
    _save_current(configuration, configuration.get(name))
    invocation.screen.one({"id": name}, f"context {name} is the current one")


def set_context(invocation: Invocation, name: ContextName) -> None:
    """Make a context of a kubeconfig, or change the project or namespace of a context. It becomes the current one."""
    configuration, fields = contexts.load(), ("url", "project", "namespace", "kubeconfig", "kube_context")
    changes = {field: value for field in fields if (value := getattr(invocation.options, field))}
    _save_current(configuration, replace(configuration.by_name.get(name, Context(name=name)), **changes))
    invocation.screen.one({"id": name}, f"context {name} is the current one")


def delete_context(invocation: Invocation, name: ContextName) -> None:
    """Delete a context and its credential."""
    configuration = contexts.load()
    configuration.get(name)
    configuration.by_name.pop(name)
    configuration.current = "" if configuration.current == name else configuration.current
    contexts.forget(name)
    contexts.save(configuration)
    invocation.screen.one({"id": name}, f"context {name} deleted")


def make_support_account(invocation: Invocation, yes: Yes = False) -> None:
    """Make the ServiceAccount with all rights on the intake: in all namespaces, or with -n in one.

    People who may make tokens of this ServiceAccount can read deliveries and signing secrets, send, retry and replay.
    """
    from hookwright_cli.ways.cluster_client import core

    way = invocation.cluster_way("support-account")
    namespace, _, name = (invocation.options.service_account or DEFAULT_ACCOUNT).rpartition("/")
    namespace = namespace or way.installation
    scope = f"namespace {invocation.options.namespace}" if invocation.options.namespace else "all namespaces"
    confirm(f"Give ServiceAccount {namespace}/{name} all rights on the intake in {scope}?", yes=yes)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    role = _intake_role(way)
    kind, path = "ClusterRoleBinding", f"{_RBAC}/clusterrolebindings"
    if invocation.options.namespace:
        kind, path = "RoleBinding", core("rolebindings", invocation.options.namespace, group=_RBAC)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        # A binding of this name has this subject and this role, so one that exists already is right.
        "metadata": {"name": f"{role}.{namespace}.{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    for place, manifest in ((core("serviceaccounts", namespace), account), (path, binding)):
        try:
            way.cluster.create(place, manifest)
        except CommandError as error:
            if error.problem != "AlreadyExists":
                raise
    invocation.screen.one(
        {"id": f"{namespace}/{name}", "binding": kind},
        f"ServiceAccount {namespace}/{name} has all rights on the intake in {scope}",
    )


def _intake_role(way: Any) -> str:
    """Return the ClusterRole of an installation for all operations of the intake; its release names it.

    An operator outside the cluster has no Deployment; then the role of the release ``hookwright`` is preferred.
    """
    label = "app.kubernetes.io/instance"
    releases = [operator["metadata"]["labels"].get(label, "") for operator in way.cluster.operators(way.installation)]
    roles = way.cluster.items(f"{_RBAC}/clusterroles", f"{label}={releases[0]}" if releases else "")
    names = [name for role in roles if (name := str(role["metadata"]["name"])).endswith("-intake-admin")]
    if not names:
        raise CommandError(
            f"the installation in namespace {way.installation} has no ClusterRole *-intake-admin",
            ExitCode.NOT_FOUND,
            hint="--installation names another namespace",
        )
    return min(names, key=lambda name: (name != "hookwright-intake-admin", name))
