"""Functions with an `Invocation` become commands with the common options and the handling of errors."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode, OtherWayError
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.terminal.screen import Screen, plain
from hookwright_cli.way_choice import WayOptions, chosen, exit_of, open_way

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay


def _text(*names: str, metavar: str, help_text: str) -> Any:
    option = typer.Option(*names, metavar=metavar, help=help_text, rich_help_panel="Way into Hookwright")
    return Annotated[str, option]


_OPTIONS: dict[str, Any] = {
    "way": _text("--way", metavar="api|kubeconfig", help_text="The way in, instead of the usual choice."),
    "context": _text("--context", metavar="NAME", help_text="A context of `hookwright contexts list`."),
    "url": _text("--url", metavar="URL", help_text="Use /v1 at this URL, with HOOKWRIGHT_API_KEY."),
    "project": _text("--project", "-p", metavar="NAME", help_text="The project, if there are several."),
    "namespace": _text("--namespace", "-n", metavar="NAME", help_text="The organization, which is a namespace."),
    "kubeconfig": _text("--kubeconfig", metavar="FILE", help_text="Use this kubeconfig."),
    "kube_context": _text("--kube-context", metavar="NAME", help_text="Use this context of the kubeconfig."),
    "installation": _text(
        "--installation",
        metavar="NAMESPACE",
        help_text="Namespace of Hookwright, by default that of the pod, or hookwright-system.",
    ),
    "service_account": _text(
        "--service-account",
        metavar="[NAMESPACE/]NAME",
        help_text="ServiceAccount whose rights are used on the intake, by default hookwright-support.",
    ),
}
_OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="table|wide|json|yaml|name", help="Form of the answer, table.")
]
_COMMON = {"output": _OUTPUT, **_OPTIONS}
"""The options of every command, which may also be before the verb."""


class Invocation:
    """What a command works with: the screen, and the way, which is opened at its first use."""

    def __init__(self, screen: Screen, options: WayOptions) -> None:
        self.screen, self.options = screen, options

    @functools.cached_property
    def way(self) -> "Way":
        """The chosen way into Hookwright."""
        return open_way(self.options)

    def cluster_way(self, verb: str) -> "KubeconfigWay":
        """Return the way if it is that of a kubeconfig.

        Raises:
            OtherWayError: it is ``/v1``, which cannot do the verb.
        """
        way = self.way
        if way.kind == "api":
            raise OtherWayError(verb)
        return way

    @property
    def uses_a_way(self) -> bool:
        """Whether the way was opened."""
        return "way" in self.__dict__

    def way_description(self) -> str:
        """Return the way, with its place and how to leave it."""
        return f"{self.way.place}; {exit_of(*chosen(self.options))}"

    def none_of(self, objects: str) -> str:
        """Return the sentence for an empty list; it names the place, because the objects may be at another one."""
        return f"There are no {objects} ({self.way.place})."

    def close(self) -> None:
        """Close the way if it was opened."""
        if self.uses_a_way:
            self.way.close()


def is_plugin() -> bool:
    """Return whether this process is ``kubectl hookwright``."""
    return os.path.basename(sys.argv[0]).startswith("kubectl")  # noqa: PTH119 - a name, no path


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with the common options, which ends the process with the exit code of an error."""
    own = list(inspect.signature(function).parameters.values())[1:]
    common = [name for name in _COMMON if name not in function.__annotations__]

    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:
        before_the_verb = ctx.find_root().params
        options = {name: given.pop(name, "") or before_the_verb.get(name) or "" for name in common}
        output = options.pop("output") or "table"
        guarded(lambda: _run(function, output, options, given))

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return _with_parameters(run, [context, *own], common)


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function of the application, which accepts the common options before a verb."""

    @functools.wraps(function)
    def run(**given: Any) -> None:
        function(**{name: value for name, value in given.items() if name not in _COMMON})

    return _with_parameters(run, list(inspect.signature(function).parameters.values()), list(_COMMON))


def _with_parameters(
    run: Callable[..., None], own: Sequence[inspect.Parameter], common: Sequence[str]
) -> Callable[..., None]:
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="", annotation=_COMMON[name]) for name in common
    ]
    parameters = [*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def _run(function: Callable[..., None], output: str, options: dict[str, str], given: dict[str, Any]) -> None:
    invocation = Invocation(Screen(output), WayOptions(**options, plugin=is_plugin()))
    try:
        DEADLINE.begin()
        function(invocation, **given)
    except CommandError as error:
        error.way = invocation.way_description() if invocation.uses_a_way else ""
        raise
    finally:
        DEADLINE.lift()
        invocation.close()


def guarded(run: Callable[[], None]) -> None:
    """Run a command; print an error as words, and end the process with its exit code.

    Raises:
        typer.Exit: the command failed.
    """
    try:
        run()
    except CommandError as error:
        code = f" ({error.problem})" if error.problem else ""
        first, *others = str(error).split("\n")
        sys.stderr.write(plain("\n".join([f"hookwright: {first}{code}", *others, ""])))
        if error.hint:
            sys.stderr.write(f"next: {plain(error.hint)}\n")
        if error.way:
            sys.stderr.write(f"way: {plain(error.way)}\n")
        raise typer.Exit(int(error.code)) from None
    except KeyboardInterrupt:
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    except BrokenPipeError:
        # The reader of the output has ended, for example `head`; a later flush must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except typer.Exit:
        raise
    except OSError as error:
        sys.stderr.write(f"hookwright: {plain(str(error))}\n")
        raise typer.Exit(int(ExitCode.FAILED)) from None
    except Exception as error:
        if os.environ.get("HOOKWRIGHT_DEBUG"):
            raise
        sys.stderr.write(f"hookwright: internal error: {type(error).__name__}: {plain(str(error))}\n")
        sys.stderr.write("next: set HOOKWRIGHT_DEBUG=1 for the traceback, and report it\n")
        raise typer.Exit(int(ExitCode.FAILED)) from None
