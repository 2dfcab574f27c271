"""Logs: one line per entry, as JSON or for a console; entries of libraries use the same format."""

import logging
import sys
from collections.abc import Sequence

import structlog


def escape_controls(_: object, __: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Return an entry for a console: control characters and those that change the direction of text are escaped.

    Callers and tenants choose parts of values, such as the email of a login. The JSON of the other form escapes them.
    """
    return {name: _printable(value) if isinstance(value, str) else value for name, value in entry.items()}


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def configure(*, form: str, level: str, quiet: Sequence[str] = ()) -> None:
    """Send all logs to standard error.

    Args:
        form: ``json`` or ``console``.
        level: the lowest level that is shown, such as ``info``.
        quiet: loggers of libraries that log warnings and errors only.
    """
    chain: list[structlog.typing.Processor] = [
        # The id of the current request.
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without local variables: those could hold a secret.
    render: list[structlog.typing.Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if form == "json"
        else [
            escape_controls,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render]
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in quiet:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    structlog.configure(
        processors=[*chain, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        cache_logger_on_first_use=True,
    )
