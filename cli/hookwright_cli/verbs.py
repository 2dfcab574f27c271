"""Functions with an `Invocation` become commands with the common options and the handling of errors."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.terminal.plain_text import plain
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.way_choice import WayOptions, open_way

if TYPE_CHECKING:
    from hookwright_cli.ways.way import Way


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
        "--installation", metavar="NAMESPACE", help_text="Namespace of Hookwright, by default hookwright-system."
    ),
    "service_account": _text(
        "--service-account",
        metavar="[NAMESPACE/]NAME",
        help_text="ServiceAccount whose rights are used on the intake, by default hookwright-support.",
    ),
}
_OUTPUT = Annotated[
    str, typer.Option("--output", "-o", metavar="table|wide|json|yaml|name", help="Form of the answer.")
]


class Invocation:
    """What a command works with: the screen, and the way, which is opened at its first use."""

    def __init__(self, screen: Screen, options: WayOptions) -> None:
        self.screen, self.options = screen, options

    @functools.cached_property
    def way(self) -> "Way":
        """The chosen way into Hookwright."""
        return open_way(self.options)

    def close(self) -> None:
        """Close the way if it was opened."""
        if "way" in self.__dict__:
            self.way.close()


def add_commands(app: typer.Typer, commands: Mapping[str, Callable[..., None]]) -> None:
    """Add functions as commands of these names."""
    for name, function in commands.items():
        app.command(name)(command_of(function))


def is_plugin() -> bool:
    """Return whether this process is ``kubectl hookwright``."""
    return os.path.basename(sys.argv[0]).startswith("kubectl")  # noqa: PTH119 - a name, no path


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with the common options, which ends the process with the exit code of an error."""
    own = list(inspect.signature(function).parameters.values())[1:]
    hints = {name: hint for name, hint in function.__annotations__.items() if name not in {"invocation", "return"}}
    added = {"output": _OUTPUT, **{name: hint for name, hint in _OPTIONS.items() if name not in hints}}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        options = {name: given.pop(name, "") or "" for name in added}
        output = options.pop("output")
        guarded(lambda: _run(function, output, options, given))

    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default="table" if name == "output" else "",
            annotation=hint,
        )
        for name, hint in added.items()
    ]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + parameters
    )
    run.__annotations__ = hints | added
    del run.__wrapped__
    return run


def _run(function: Callable[..., None], output: str, options: dict[str, str], given: dict[str, Any]) -> None:
    invocation = Invocation(Screen(output), WayOptions(**options, plugin=is_plugin()))
    try:
        function(invocation, **given)
    finally:
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
