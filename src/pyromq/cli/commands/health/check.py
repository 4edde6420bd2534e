"""`pyromq check`: one line and an exit code for monitoring systems."""

from __future__ import annotations

from typing import Annotated

import typer

from pyromq.admin import AdminClient
from pyromq.admin.health.checks import CheckLimits, CheckReport, CheckResult, Limit
from pyromq.admin.views.health_view import check_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.main import describe
from pyromq.cli.show.lines import counted, json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError, PyroMQError
from pyromq.remoting.loop import run

UNKNOWN = 3

app = Family()


@app.command()
def check(
    namesrv: Namesrv = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Only this group; may be repeated.", show_default="all groups")
    ] = None,
    lag: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Messages that wait for a group.", show_default="not checked")
    ] = None,
    lag_seconds: Annotated[
        str | None,
        typer.Option(metavar="LIMIT", help="Age of a group's oldest waiting message.", show_default="not checked"),
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="LIMIT", help="Dead letters of a group.", show_default="not checked")
    ] = None,
    disk: Annotated[str, typer.Option(metavar="LIMIT", help="How full a broker's disk is, in percent.")] = "85:95",
    silent_brokers: Annotated[str, typer.Option(metavar="LIMIT", help="Brokers that do not answer.")] = "1",
    as_json: AsJson = False,
) -> None:
    """Check a cluster for a monitoring system: one line and an exit code.

    A LIMIT is CRITICAL, or WARNING:CRITICAL; a value that reaches it counts. The exit code is 0 if all is well, 1 for a
    warning, 2 for a critical value, and 3 if the cluster could not be asked. Groups of RocketMQ's own count only if
    named.
    """
    limits = CheckLimits(
        lag=_limit(lag, "--lag"),
        lag_seconds=_limit(lag_seconds, "--lag-seconds"),
        disk=_limit(disk, "--disk"),
        dead_letters=_limit(dead_letters, "--dead-letters"),
        silent_brokers=_limit(silent_brokers, "--silent-brokers"),
    )
    try:
        report = run(_check(namesrv_addresses(namesrv), limits, group or []))
    except PyroMQError as error:
        text = describe(error)
        print(json_line({"status": "UNKNOWN", "text": text}) if as_json else f"UNKNOWN - {printable(text)}")
        raise typer.Exit(UNKNOWN) from None
    print(json_line(check_fields(report)) if as_json else _line(report))
    raise typer.Exit(int(report.level))


def _limit(text: str | None, option: str) -> Limit | None:
    if text is None:
        return None
    try:
        return Limit.parse(text)
    except ClientError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


async def _check(namesrv: str, limits: CheckLimits, groups: list[str]) -> CheckReport:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.check(limits, groups)


def _line(report: CheckReport) -> str:
    """Return what is wrong, the worst first, or that all is well; then the values as monitoring plugins write them."""
    bad = sorted((result for result in report.results if result.level), key=lambda result: -result.level)
    shown = bad or [result for result in report.results if result.limit is not None]
    brokers, groups = counted(report.brokers, "broker"), counted(report.groups, "group")
    what = "; ".join(result.text for result in shown)
    head = f"{report.level.name} - " + (what if bad else f"{brokers}, {groups}; {what}")
    values = " ".join(_value(result) for result in report.results if result.limit is not None)
    return printable(f"{head} | {values}".replace("\n", " "))


def _value(result: CheckResult) -> str:
    limit = result.limit or Limit()
    ends = ";".join("" if end is None else f"{end:g}" for end in (limit.warning, limit.critical))
    return f"{result.name}={result.value:.10g}{result.unit};{ends}"
