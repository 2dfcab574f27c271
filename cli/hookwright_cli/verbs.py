"""Functions with an `Invocation` become commands with the common options and the handling of errors."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.terminal.screen import Screen, plain
from hookwright_cli.way_choice import OPTIONS, WayOptions, chosen, exit_of, open_way, option

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way
    from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

_OUTPUT = Annotated[str, option("--output -o", "table|wide|json|yaml|name", "Form of the answer, table.")]
_COMMON = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="", annotation=annotation)
    for name, annotation in {"output": _OUTPUT, **OPTIONS}.items()
]
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
        """Return the way if it is that of a kubeconfig."""
        way = self.way
        if way.kind == "api":
            advice = "use --way=kubeconfig, with a kubeconfig of the cluster"
            raise CommandError(f"{verb} does not work through /v1", ExitCode.OTHER_WAY, hint=advice)
        return way

    def way_description(self) -> str:
        """Return the way, with its place and how to leave it."""
        return f"{self.way.place}; {exit_of(*chosen(self.options))}"

    def none_of(self, objects: str) -> str:
        """Return the sentence for an empty list; it names the place, because the objects may be at another one."""
        return f"There are no {objects} ({self.way.place})."


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function with the common options, which ends the process with the exit code of an error."""

    def run(ctx: typer.Context, **arguments: Any) -> None:
        before_the_verb = ctx.find_root().params
        common = {item.name: arguments.pop(item.name) or before_the_verb.get(item.name) or "" for item in _COMMON}
        with errors_reported():
            _run(function, common.pop("output") or "table", common, arguments)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    verb_parameters = list(inspect.signature(function).parameters.values())[1:]
    parameters = [context, *(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in verb_parameters), *_COMMON]
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def _run(function: Callable[..., None], output: str, options: dict[str, Any], arguments: dict[str, Any]) -> None:
    invocation = Invocation(Screen(output), WayOptions(**options))
    try:
        DEADLINE.begin()
        function(invocation, **arguments)
    except CommandError as error:
        if "way" in vars(invocation):
            error.add_note(f"way: {invocation.way_description()}")
        raise
    finally:
        DEADLINE.lift()
        if "way" in vars(invocation):
            invocation.way.close()


@contextmanager
def errors_reported() -> Iterator[None]:
    """Print an error of the block as words, and end the process with its exit code.

    Raises:
        typer.Exit: the command failed.
    """
    try:
        yield
    except CommandError as error:
        problem = f" ({error.problem})" if error.problem else ""
        first, *rest = str(error).split("\n")
        notes = [f"next: {error.hint}"] if error.hint else []
        raise _failure(error.code, first + problem, *rest, *notes, *getattr(error, "__notes__", ())) from None
    except KeyboardInterrupt:
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    except BrokenPipeError:
        # The reader of the output has ended, for example `head`; a later flush must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except typer.Exit:
        raise
    except OSError as error:
        raise _failure(ExitCode.FAILED, str(error)) from None
    except Exception as error:
        if os.environ.get("HOOKWRIGHT_DEBUG"):
            raise
        advice = "next: set HOOKWRIGHT_DEBUG=1 for the traceback, and report it"
        raise _failure(ExitCode.FAILED, f"internal error: {type(error).__name__}: {error}", advice) from None


def _failure(code: ExitCode, *lines: str) -> typer.Exit:
    sys.stderr.write(plain("hookwright: " + "\n".join(lines) + "\n"))
    return typer.Exit(int(code))
