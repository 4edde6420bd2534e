"""`pyromq pipeline`: run the shipped pipelines, and projects of Spark's Declarative Pipelines."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.examples import examples_text
from pyromq.cli.family import Family, FamilyGroup
from pyromq.cli.pipeline.generated_commands import assignments, pipeline_command, project_command
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import json_line
from pyromq.pipelines import project
from pyromq.pipelines.catalog import CATALOG

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The project's directory.")]

app = Family(help="Pipelines on Spark: the shipped ones, and your own.")


class Pipelines(FamilyGroup):
    """Makes the command of a pipeline on demand, from its Options."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(CATALOG)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in CATALOG:
            command = pipeline_command(cmd_name)
            command.epilog = examples_text(f"pipeline run {cmd_name}")
            return command
        if project.is_project(Path(cmd_name)):
            return project_command(Path(cmd_name))
        if Path(cmd_name).is_dir():
            raise typer.BadParameter(project.no_specification(Path(cmd_name)))
        near = get_close_matches(cmd_name, CATALOG, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CATALOG)}, or give a project's directory"
        raise typer.BadParameter(f"there is no pipeline {cmd_name!r}; {hint}")


running = Family(cls=Pipelines, help="Run a pipeline, or the project in a directory.")
app.add_typer(running, name="run")


@app.command("list")
def list_pipelines(as_json: AsJson = False) -> None:
    """List the shipped pipelines.

    `pyromq pipeline run NAME --help` shows the options of one.
    """
    if as_json:
        for name, summary in CATALOG.items():
            print(json_line({"pipeline": name, "summary": summary}))
        return
    table = Table("pipeline", "does")
    for name, summary in CATALOG.items():
        table.add_row(name, summary)
    output().print(table)


@app.command()
def init(
    directory: Directory,
    namesrv: Namesrv = None,
    topic: Annotated[str, typer.Option(help="The topic to read.")] = "orders",
    to: Annotated[str, typer.Option(help="The topic to write to.")] = "alerts",
) -> None:
    """Write a new project of Spark Declarative Pipelines that uses topics."""
    for path in project.write(directory, namesrv_addresses(namesrv), topic, to):
        print(path)
    remarks().print(f"next: pyromq pipeline dry-run {directory}, then pyromq pipeline run {directory}")


@app.command("dry-run")
def dry_run(
    directory: Directory,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect server, sc://host:15002.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")] = None,
) -> None:
    """Check a project without running it: its graph, its sources and their columns."""
    project.execute(directory, dry=True, master=None, remote=remote, conf=assignments(conf))
