"""`pyromq pipeline`: run the shipped pipelines, and projects of Spark's Declarative Pipelines."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.pipeline.generated_commands import assignments, pipeline_command, project_command
from pyromq.pipelines import project
from pyromq.pipelines.catalog import CATALOG

Directory = Annotated[Path, typer.Argument(help="The project's directory.")]

app = typer.Typer(help="Pipelines on Spark: the shipped ones, and your own.", no_args_is_help=True)


class Pipelines(TyperGroup):
    """Makes the command of a pipeline on demand, from its Options."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(CATALOG)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in CATALOG:
            return pipeline_command(cmd_name)
        if project.is_project(Path(cmd_name)):
            return project_command(Path(cmd_name))
        if Path(cmd_name).is_dir():
            raise typer.BadParameter(project.no_specification(Path(cmd_name)))
        near = get_close_matches(cmd_name, CATALOG, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CATALOG)}, or give a project's directory"
        raise typer.BadParameter(f"there is no pipeline {cmd_name!r}; {hint}")


running = typer.Typer(cls=Pipelines, help="Run a pipeline, or the project in a directory.", no_args_is_help=True)
app.add_typer(running, name="run")


@app.command("list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the shipped pipelines; `pyromq pipeline run NAME --help` shows their options."""
    if as_json:
        for name, summary in CATALOG.items():
            print(json.dumps({"pipeline": name, "summary": summary}))
        return
    table = Table("pipeline", "does")
    for name, summary in CATALOG.items():
        table.add_row(name, summary)
    Console().print(table)


@app.command()
def init(
    directory: Directory,
    namesrv: Namesrv = None,
    topic: Annotated[str, typer.Option(help="The topic to read.")] = "orders",
    to: Annotated[str, typer.Option(help="The topic to write to.")] = "alerts",
) -> None:
    """Write a new project of Spark's Declarative Pipelines that reads and writes topics."""
    for path in project.write(directory, namesrv_addresses(namesrv), topic, to):
        print(path)
    Console(stderr=True).print(f"next: pyromq pipeline dry-run {directory}, then pyromq pipeline run {directory}")


@app.command("dry-run")
def dry_run(
    directory: Directory,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:15002.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")] = None,
) -> None:
    """Check a project without running it: its graph, its sources and their columns."""
    project.execute(directory, dry=True, master=None, remote=remote, conf=assignments(conf))
