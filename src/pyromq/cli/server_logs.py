"""Where and how servers log: the options that all of them have, and what they do."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from pyromq.cli.log_lines import BoundedHandler, JsonFormatter, RotatedFile
from pyromq.remoting.limits import raise_descriptor_limit


class LogLevel(Enum):
    """The least important events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(Enum):
    """What a line looks like."""

    TEXT = "text"
    JSON = "json"


NOT_FOR_OTHERS: Final = 0o027
"""What the mask of a server has at least: whatever it writes has mode 0640 and directories 0750, or less."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE: Final = re.compile(r"(\d{1,12})\s*([KMG]?)i?B?", re.IGNORECASE)
_LOG_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "log_level": (
        Annotated[LogLevel, typer.Option("--log-level", help="The least important events to log.")],
        LogLevel.INFO,
    ),
    "log_format": (
        Annotated[LogFormat, typer.Option("--log-format", help="Readable lines, or JSON lines.")],
        LogFormat.TEXT,
    ),
    "log_file": (
        Annotated[
            Path | None,
            typer.Option("--log-file", help="Log to this file, which is rotated.", show_default="standard error"),
        ],
        None,
    ),
    "log_max_size": (
        Annotated[str, typer.Option("--log-max-size", metavar="SIZE", help="Size at which the file is rotated.")],
        "100MB",
    ),
    "log_keep": (
        Annotated[int, typer.Option("--log-keep", min=1, max=1000, help="Number of rotated files to keep.")],
        10,
    ),
}


def server_command(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the log to a command, which logs and takes all the descriptors that it can get."""

    @functools.wraps(function)
    def run(
        *arguments: Any,
        log_level: LogLevel,
        log_format: LogFormat,
        log_file: Path | None,
        log_max_size: str,
        log_keep: int,
        **options: Any,
    ) -> None:
        os.umask(os.umask(0o077) | NOT_FOR_OTHERS)
        start_logging(
            level=logging.getLevelNamesMapping()[log_level.name],
            as_json=log_format is LogFormat.JSON,
            file=log_file,
            max_bytes=parse_size(log_max_size, "--log-max-size"),
            keep=log_keep,
        )
        raise_descriptor_limit()
        function(*arguments, **options)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in _LOG_OPTIONS.items()
    ]
    signature = inspect.signature(function, eval_str=True)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def start_logging(
    *,
    level: int = logging.INFO,
    as_json: bool = False,
    file: Path | None = None,
    max_bytes: int = 100 << 20,
    keep: int = 10,
) -> None:
    """Log to standard error or a file, one line for each event; `pyromq --debug` stays at its level."""
    root = logging.getLogger()
    handler = BoundedHandler() if file is None else RotatedFile(file, max_bytes, keep)
    if as_json:
        handler.setFormatter(JsonFormatter())
    before = [old for old in root.handlers if isinstance(old, BoundedHandler | RotatedFile)]
    root.setLevel(min(level, root.level) if before else level)
    for old in before:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log every question to etcd


def parse_size(text: str, option: str) -> int:
    """Return the bytes that `100MB`, `64K` or `1048576` mean."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise typer.BadParameter(f"{option} must be a size such as 100MB, 1G or 65536, not {text!r}")
    return int(found[1]) * _UNITS[found[2].upper()]
