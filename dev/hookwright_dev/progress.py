"""Progress display on standard error for operations that can take long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

Show = Callable[[str], None]
"""Function that sets the detail after the title, for example the progress of a download."""


@contextmanager
def progress(title: str) -> Iterator[Show]:
    """Show ``title`` while the body runs: on a terminal with the latest detail, in a log as one line."""
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.print(title)
        yield lambda _detail: None
        return
    with console.status(escape(title)) as status:
        yield lambda detail: status.update(escape(f"{title}, {detail}"))
