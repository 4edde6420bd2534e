"""`pyromq cluster status` and `promote`: how masters and slaves stand, and another master."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pyromq.admin import AdminClient, ClusterStatus, PromotionPlan
from pyromq.admin.views.cluster_view import cluster_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses
from pyromq.cli.show.cluster_table import status_as_tables
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line
from pyromq.client.environment import environment_credentials
from pyromq.errors import BrokerError, ClientError
from pyromq.protocol.bodies.replication import Promotion
from pyromq.protocol.codes import MASTER_ID
from pyromq.remoting.loop import run


def status(
    namesrv: Namesrv = None,
    broker: Annotated[str | None, typer.Option(help="Only the brokers of this name.", show_default="all")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all brokers: role, epoch, log, how far slaves are behind, what is wrong."""
    found = run(_status(namesrv_addresses(namesrv), broker))
    if as_json:
        print(json_line(cluster_fields(found)))
        return
    for piece in status_as_tables(found):
        output().print(piece, soft_wrap=isinstance(piece, str))


async def _status(namesrv: str, broker: str | None) -> ClusterStatus:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.cluster_status(broker)


def promote(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The broker name.")],
    namesrv: Namesrv = None,
    broker_id: Annotated[
        int | None, typer.Option(min=MASTER_ID + 1, help="The slave with this id.", show_default="the longest log")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also if the master cannot hand over; what only it has is lost.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make a slave master.

    With both alive the master hands over: it takes no more messages, the slave gets the rest of its log and goes on. No
    send fails. A master that cannot be reached is replaced only with --force.
    """
    run(_promote(namesrv_addresses(namesrv), name, broker_id, force=force, dry_run=dry_run, ask=not yes))


async def _promote(namesrv: str, name: str, broker_id: int | None, *, force: bool, dry_run: bool, ask: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        plan = await admin.plan_promotion(name, broker_id)
        if dry_run:
            print(_plan_line(plan))
            return
        if ask:
            confirm(f"{_plan_line(plan)}{', by force' if force else ''}?")
        try:
            done = await admin.promote(name, plan.successor.broker_id, force=force)
        except BrokerError as error:
            raise ClientError(error.remark if force else f"{error.remark} (--force)") from error
    for line in _outcome(plan, done):
        print(line, file=sys.stderr if line.startswith("!") else sys.stdout)


def _plan_line(plan: PromotionPlan) -> str:
    one, master = plan.successor, plan.master
    lag = f", which is {one.lag_bytes:,} bytes behind," if one.lag_bytes else ""
    place = f"in place of {master.address}" if master is not None else "of a broker that has none"
    return f"Make {one.title} at {one.address}{lag} master {place}"


def _outcome(plan: PromotionPlan, done: Promotion) -> list[str]:
    lines = [
        f"{plan.successor.address} is {done.role} of {plan.successor.name} now:"
        f" epoch {done.epoch} from offset {done.start:,}, after {done.took_ms / 1000:.2f} s"
    ]
    if done.is_forced:
        lines.append(f"! {done.behind_bytes:,} bytes of the old master's log, as last heard of, are missing")
    if done.old_master and not done.old_master_told:
        lines.append(
            f"! the old master at {done.old_master} could not be told: if it lives, it is told once it answers"
        )
    lines += [f"! the slave at {address} could not be told to leave the old master" for address in done.untold]
    lines.append(
        "brokerRole and brokerId in broker.conf say what each of them is after its next start: change them now"
    )
    return lines
