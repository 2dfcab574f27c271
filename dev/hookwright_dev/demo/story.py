"""Output of the demo: numbered steps, commands that a reader can repeat, and a check for every claim."""

import asyncio
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape

from hookwright_dev.errors import DevError


@dataclass(slots=True)
class Story:
    """Printer to standard output, with a count of verified claims."""

    console: Console = field(default_factory=lambda: Console(highlight=False, soft_wrap=True))
    steps: int = 0
    verified: int = 0

    def step(self, title: str) -> None:
        """Begin a step."""
        self.steps += 1
        self.console.print(f"\n[bold cyan]{self.steps}. {escape(title)}[/]")

    def say(self, text: str) -> None:
        """Print a sentence."""
        self.console.print(f"   {escape(text)}")

    def command(self, line: str) -> None:
        """Print a command that the reader can repeat."""
        self.console.print(f"   [bold]$ {escape(line)}[/]")

    def output(self, text: str) -> None:
        """Print the output of a command."""
        self.console.print(f"[dim]{escape(textwrap.indent(text.rstrip(), '     '))}[/]")

    def check(self, claim: str, *, holds: bool, otherwise: str = "") -> None:
        """Print a claim that is true, or end the demo.

        Raises:
            DevError: the claim is not true; the message has the actual value.
        """
        if not holds:
            raise DevError(f"not so: {claim}" + (f" ({otherwise})" if otherwise else ""))
        self.verified += 1
        self.console.print(f"   [green]✓[/] {escape(claim)}")

    async def wait_for(self, claim: str, holds: Callable[[], bool], *, within: float) -> None:
        """Check a claim repeatedly for ``within`` seconds, with blocking calls in a thread."""
        deadline = time.monotonic() + within
        while not (is_true := await asyncio.to_thread(holds)) and time.monotonic() < deadline:  # noqa: ASYNC110 - polls a program
            await asyncio.sleep(0.1)
        self.check(claim, holds=is_true, otherwise=f"not within {within:g} s")
