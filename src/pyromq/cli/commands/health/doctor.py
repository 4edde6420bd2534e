"""`pyromq doctor`: which step between here and a stored message fails, and what to do."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from pyromq.admin import AdminClient
from pyromq.admin.health.examination import DoctorStep, Examination, StepStatus
from pyromq.admin.views.health_view import step_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import counted, json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.errors import ConfigError
from pyromq.remoting.loop import run

_COLOURS = {
    StepStatus.OK: "green",
    StepStatus.WARNING: "yellow",
    StepStatus.FAILED: "bold red",
    StepStatus.SKIPPED: "dim",
}

app = Family()


@app.command()
def doctor(
    namesrv: Namesrv = None,
    topic: Annotated[
        str | None, typer.Option(help="Walk to this topic.", show_default="a topic that every broker has")
    ] = None,
    send: Annotated[bool, typer.Option("--send/--no-send", help="Store a test message on each broker.")] = True,
    send_to_topic: Annotated[
        bool, typer.Option("--send-to-topic", help="Store it in --topic itself, where its consumers receive it.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            exists=True,
            file_okay=False,
            help="The store directory to look at.",
            show_default="that of brokers on this machine",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find out which step fails between this machine and a stored message.

    It walks from the name servers over the route and the permissions to each broker, stores a test message in
    BenchmarkTest, which no application reads, and reads it back. Then it looks at clocks, versions, Java, disks and
    open files. The exit code is 1 if a step fails; each failure says what to do.
    """  # fmt: skip
    if send_to_topic and (topic is None or not send):
        raise typer.BadParameter("--send-to-topic needs --topic, and no --no-send")
    found = run(_examine(namesrv_addresses(namesrv), topic, send, send_to_topic, data)).joined([_java()])
    if as_json:
        for step in found.steps:
            print(json_line(step_fields(step)))
    else:
        _show(found)
    if found.failed:
        raise typer.Exit(1)


async def _examine(namesrv: str, topic: str | None, send: bool, send_to_topic: bool, data: Path | None) -> Examination:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.examine(topic, send=send, send_to_topic=send_to_topic, data=data)


def _java() -> DoctorStep:
    if find_spec("pyspark") is None:
        return DoctorStep("Java", StepStatus.SKIPPED, "only Spark needs it: pip install 'pyromq[spark]'")
    from pyromq.spark.launch.java import find_java

    try:
        return DoctorStep("Java", StepStatus.OK, f"{find_java()}, for Spark")
    except ConfigError as error:
        return DoctorStep("Java", StepStatus.WARNING, str(error), "only Spark needs it")


def _show(found: Examination) -> None:
    console = output()
    width = max(len(step.name) for step in found.steps)
    for step in found.steps:
        colour = _COLOURS[step.status]
        line = f"[{colour}]{step.status:8}[/] {_safe(step.name):{width}}  {_safe(step.seen)}"
        console.print(line, soft_wrap=True)
        if step.advice:
            console.print(f"{'':8} {'':{width}}  [{colour}]-> {_safe(step.advice)}[/]", soft_wrap=True)
    console.print(_summary(found))


def _summary(found: Examination) -> str:
    parts = [
        counted(len(steps), word) for steps, word in ((found.failed, "failure"), (found.warnings, "warning")) if steps
    ]
    return ", ".join(parts) or "all is well"


def _safe(text: str) -> str:
    return escape(printable(text))
