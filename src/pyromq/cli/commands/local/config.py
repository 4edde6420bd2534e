"""`pyromq config`: check a configuration file, offline."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct, to_builtins

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.cli.arguments import AsJson
from pyromq.cli.family import Family
from pyromq.cli.show.lines import json_line, printable
from pyromq.errors import ConfigError
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.settings.properties_file import property_lines, read_properties_file


class Server(Enum):
    """Whose file it is."""

    BROKER = "broker"
    NAMESRV = "namesrv"


class FileFinding(Struct):
    """One line of the result. Without a line number it is about the whole file."""

    line: int | None
    severity: str
    key: str
    text: str
    kind: str = "value"
    """`unknown`, `value` or `without effect`."""


TABLES = {Server.BROKER: BROKER_TABLE, Server.NAMESRV: NAMESRV_TABLE}

app = Family(help="Check configuration files without a server.")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A broker.conf, or another server's file.")],
    server: Annotated[
        Server | None,
        typer.Option("--for", help="The server that reads the file.", show_default="by the file's name and keys"),
    ] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Accept unknown keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every key and value of a configuration file.

    The exit code is 0 if a server accepts the file and 1 if not. Errors are unknown keys and wrong values; warnings are
    keys without effect, all in one, and keys that are given twice.
    """
    text = read_properties_file(file)
    server = server or guess_server(file.name, text)
    findings = find(text, server, lenient)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        for finding in findings:
            print(json_line(to_builtins(finding)))
    else:
        shown = with_one_warning(findings)
        for finding in shown:
            place = f"{file}:{finding.line}" if finding.line is not None else f"{file}"
            print(printable(f"{place}: {finding.severity}: {finding.text}"))
        print(f"{file}: {_count(errors, 'error')}, {_count(len(shown) - errors, 'warning')} for a {_NAMES[server]}")
    if errors:
        raise typer.Exit(1)


def guess_server(name: str, text: str) -> Server:
    """Return whose file it is: by its name, else a name server's if it has keys that only that one knows."""
    if "namesrv" in name.lower():
        return Server.NAMESRV
    keys = {key for _, key, _ in property_lines(text)}
    broker, namesrv = ({*TABLES[one].known, *TABLES[one].old_spellings} for one in (Server.BROKER, Server.NAMESRV))
    return Server.NAMESRV if keys & (namesrv - broker) and not keys & (broker - namesrv) else Server.BROKER


def with_one_warning(findings: Sequence[FileFinding]) -> list[FileFinding]:
    """Return the findings with all keys without effect in one, at the end: files of RocketMQ have many."""
    idle = [finding for finding in findings if finding.text == f"{finding.key} has no effect here"]
    shown = [finding for finding in findings if finding not in idle]
    if idle:
        keys = ", ".join(f"{finding.key} (line {finding.line})" for finding in idle)
        verb = "key has" if len(idle) == 1 else "keys have"
        shown.append(FileFinding(None, "warning", "", f"{len(idle)} {verb} no effect here: {keys}", "without effect"))
    return shown


def find(text: str, server: Server = Server.BROKER, lenient: bool = False) -> list[FileFinding]:
    """Return everything that is wrong with a file or has no effect, in the order of its lines."""
    table, other = TABLES[server], next(one for one in Server if one is not server)
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    found = []
    for line, key, value in property_lines(text):
        if key in lines:
            text = f"{key} is given again in line {line}, which counts"
            found.append(FileFinding(lines[key], "warning", key, text))
        values[key], lines[key] = value, line
    for key in values.keys() & table.old_spellings.keys():
        lines.setdefault(table.old_spellings[key], lines[key])
    _, problems = table.read(values, lenient=lenient)
    for problem in problems:
        text = problem.text
        if problem.kind == "unknown" and problem.key in {*TABLES[other].known, *TABLES[other].old_spellings}:
            text = f"{problem.key} is a key of the {_NAMES[other]}; `--for {other.value}` checks its file"
        severity = "error" if problem.is_error else "warning"
        found.append(FileFinding(lines[problem.key], severity, problem.key, text, problem.kind))
    if server is Server.BROKER and not any(finding.severity == "error" for finding in found):
        found += _check_together(values, lenient)
    return sorted(found, key=lambda finding: finding.line or 0)


def _check_together(values: dict[str, str], lenient: bool) -> list[FileFinding]:
    """Return what is wrong with values that are right by themselves."""
    try:
        broker_config(values, lenient=lenient)
    except ConfigError as error:
        return [FileFinding(None, "error", str(error).partition(":")[0], str(error))]
    return []


_NAMES = {Server.BROKER: "broker", Server.NAMESRV: "name server"}


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
