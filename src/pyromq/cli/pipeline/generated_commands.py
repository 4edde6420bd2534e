"""A command for each pipeline: the fields of its Options become options, its outcome a table."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from pyromq.cli.arguments import namesrv_addresses, split_assignment
from pyromq.cli.family import Family
from pyromq.cli.pipeline.progress_bar import watched
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line
from pyromq.errors import PyroMQError
from pyromq.pipelines import project
from pyromq.pipelines.catalog import CATALOG, Field, Pipeline, check, fields, load, look, settings
from pyromq.pipelines.common.pipeline_session import opened
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.outcome import Outcome

Master = Annotated[str | None, typer.Option(help="Spark's master, spark://host:7077; without it local[*].")]
Remote = Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:15002.")]
Ship = Annotated[bool, typer.Option("--ship", help="Bring the package along, for clusters without it.")]
Conf = Annotated[list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as one line of JSON.")]
_SENDING = frozenset({"replay", "widen", "orders"})  # they change a cluster; the others only read it
_SHARED = {"master": (Master, None), "remote": (Remote, None), "ship": (Ship, False), "conf": (Conf, None)}


class SparkSettings(NamedTuple):
    """The options that all pipelines share: where Spark runs, and how."""

    master: str | None
    remote: str | None
    ship: bool
    conf: list[str] | None


def pipeline_command(name: str) -> Any:
    """Return the command that runs a shipped pipeline."""
    pipeline = load(name)

    def run(as_json: bool, **given: Any) -> None:
        place = SparkSettings(*(given.pop(key) for key in _SHARED))
        values = {key: value for key, value in given.items() if value is not None}
        if "namesrv" in given and not values.get("store"):
            values["namesrv"] = namesrv_addresses(given["namesrv"])
        outcome = _run(name, pipeline, _options(pipeline, values), place)
        print(_as_json(name, outcome)) if as_json else _show(outcome)

    parameters = [_parameter(field) for field in fields(pipeline.Options)]
    parameters += [_keyword(key, annotation, default) for key, (annotation, default) in _SHARED.items()]
    parameters.append(_keyword("as_json", AsJson, False))
    return _command(name, run, parameters, CATALOG[name], writes=name in _SENDING)


def project_command(directory: Path) -> Any:
    """Return the command that runs a project."""

    def run(master: str | None, remote: str | None, conf: list[str] | None) -> None:
        _check_place(master, remote)
        project.execute(directory, dry=False, master=master, remote=remote, conf=assignments(conf))

    shared = [_keyword(key, *_SHARED[key]) for key in ("master", "remote", "conf")]
    return _command(str(directory), run, shared, f"run the project in {directory}")


def _command(
    name: str, function: Any, parameters: list[inspect.Parameter], summary: str, *, writes: bool = False
) -> Any:
    function.__signature__ = inspect.Signature(parameters)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = Family()
    app.command(name, writes=writes, help=f"{summary[0].upper()}{summary[1:]}.")(function)
    command = typer.main.get_command(app)
    assert not isinstance(command, TyperGroup)
    return command


# --- options --------------------------------------------------------------------------------------------------------


def _parameter(field: Field) -> inspect.Parameter:
    kind, names = _plain(field.type), [field.flag]
    if field.name == "namesrv":
        kind, names = str, ["-n", field.flag]
    if kind is bool and field.default:
        names = [f"{field.flag}/--no-{field.flag[2:]}"]
    required = field.default is msgspec.NODEFAULT and field.name != "namesrv"
    option = typer.Option(*names, help=escape(field.help), show_default=field.default not in ("", None, 0, False))
    if required:
        return _keyword(field.name, Annotated[kind, option], inspect.Parameter.empty)
    default = None if field.name == "namesrv" or field.default is None else field.default
    return _keyword(field.name, Annotated[kind | None if default is None else kind, option], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _plain(kind: Any) -> Any:
    """Return the type for the command line: int for `int | None`, str for a Literal."""
    if get_origin(kind) is UnionType:
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return str if get_origin(kind) is Literal else kind


def _options(pipeline: Pipeline, values: dict[str, Any]) -> msgspec.Struct:
    try:
        options = msgspec.convert(values, pipeline.Options)
        check(pipeline, options)
    except (msgspec.ValidationError, PyroMQError) as error:
        raise typer.BadParameter(str(error)) from None
    return options


# --- the run --------------------------------------------------------------------------------------------------------


def _run(name: str, pipeline: Pipeline, options: msgspec.Struct, place: SparkSettings) -> Outcome:
    _check_place(place.master, place.remote)
    conf = ({} if place.remote else settings(pipeline)) | assignments(place.conf)
    look(pipeline, options, SparkPlace(place.master, place.remote))
    with (
        opened(name, master=place.master, remote=place.remote, ship=place.ship, conf=conf) as spark,
        watched(name) as progress,
    ):
        return pipeline.run(spark, options, progress)


def _check_place(master: str | None, remote: str | None) -> None:
    if master and remote:
        raise typer.BadParameter("give --master or --remote, not both: a Connect server has its own master")


def assignments(conf: list[str] | None) -> dict[str, str]:
    """Return the settings of all `--conf key=value` options."""
    return dict(split_assignment(text, "--conf") for text in conf or [])


def _show(outcome: Outcome) -> None:
    table = Table("", "messages", "why")
    table.add_row("read", f"{outcome.read:,}", "")
    table.add_row("written", f"{outcome.written:,}", "")
    for why, count in outcome.dropped.items():
        table.add_row("dropped", f"{count:,}", escape(why))
    console = output()
    console.print(table)
    for remark in outcome.remarks:
        console.print(escape(remark))


def _as_json(name: str, outcome: Outcome) -> str:
    return json_line({"pipeline": name, **msgspec.to_builtins(outcome)})
