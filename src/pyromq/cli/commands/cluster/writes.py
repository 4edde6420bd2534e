"""`pyromq cluster pause-writes` and `resume-writes`: no new messages for a broker, and again."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated

import typer

from pyromq.admin import AdminClient, WritePausePlan, WriteState
from pyromq.admin.maintenance.write_pause import GRACE
from pyromq.admin.views.maintenance_view import write_state_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses, parse_duration
from pyromq.cli.cluster_choice import is_protected
from pyromq.cli.show.lines import json_line, report_line
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run

BrokerName = Annotated[str, typer.Option("--broker", help="The broker name.")]


def pause_writes(
    broker: BrokerName,
    namesrv: Namesrv = None,
    grace: Annotated[
        str, typer.Option(help="How long producers have to leave before the broker refuses them; 0s refuses at once.")
    ] = f"{GRACE:g}s",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Let a broker take no more messages, so that it can be drained.

    First no name server routes sends to it, and producers leave within 30 seconds. Then it refuses sends, also after a
    restart, until `resume-writes`. Consumers go on. What it delivers itself, such as delayed messages, it still stores.
    """
    seconds = parse_duration(grace, "--grace").total_seconds()
    run(_pause(namesrv_addresses(namesrv), broker, seconds, dry_run=dry_run, ask=not yes, as_json=as_json))


async def _pause(namesrv: str, broker: str, grace: float, *, dry_run: bool, ask: bool, as_json: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        plan = await admin.plan_pause_writes(broker)
        if dry_run:
            print(json_line(_plan_fields(plan)) if as_json else _plan_line(plan, grace))
            return
        if ask:
            confirm(f"{_plan_line(plan, grace)}. Go on?")
        try:
            async for phase in admin.pause_writes(broker, grace=grace):
                if as_json:
                    report_line(json_line({"broker_name": broker, "writes": phase}), flush=True)
                else:
                    report_line(_phase_line(plan, phase, grace), flush=True)
        except asyncio.CancelledError:
            print(
                f"stopped: {broker} takes messages, and name servers may route none to it;"
                f" the same command goes on, `pyromq cluster resume-writes --broker {broker}` takes it back",
                file=sys.stderr,
            )
            raise
        _show_slaves((await admin.plan_pause_writes(broker)).state)


def _show_slaves(state: WriteState) -> None:
    would = "takes messages" if state.is_paused else "refuses messages"
    for address in state.differing_slaves:
        print(f"! the slave at {address} was not told: it {would} if it is promoted", file=sys.stderr)


def _plan_fields(plan: WritePausePlan) -> dict[str, object]:
    return {**write_state_fields(plan.state), "others": list(plan.others)}


def _plan_line(plan: WritePausePlan, grace: float) -> str:
    broker = plan.state.broker
    if plan.state.is_paused:
        return f"{broker} is paused already"
    others = f"producers go to {', '.join(plan.others)}" if plan.others else "no other broker takes them, so sends fail"
    return f"{broker} takes no more messages after {grace:g} s: {others}"


def _phase_line(plan: WritePausePlan, phase: str, grace: float) -> str:
    broker = plan.state.broker
    if phase == "leaving":
        return f"{broker}: name servers route no sends to it; producers have {grace:g} s to leave"
    if plan.state.refuses_all:
        return f"{broker}: paused, it refuses all sends"
    return f"{broker}: paused; it is not PyroMQ's, and accepts sends of producers with an old route to unordered topics"


def resume_writes(
    broker: BrokerName, namesrv: Namesrv = None, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Let a broker take messages again.

    It registers its topics with the permissions that they have. Producers come back within 30 seconds.
    """
    state = run(_resume(namesrv_addresses(namesrv), broker, dry_run=dry_run, ask=not yes and is_protected()))
    if as_json:
        print(json_line(write_state_fields(state)))
    elif dry_run:
        print(f"{broker} would take messages again" if _is_closed(state) else f"{broker} takes messages already")
    else:
        print(f"{broker} takes messages again")
    if not dry_run:
        for address in state.unrouted_at:
            print(
                f"! name server {address} routes no sends to it yet: it does when {broker} registers", file=sys.stderr
            )
        _show_slaves(state)


def _is_closed(state: WriteState) -> bool:
    return state.is_paused or bool(state.unrouted_at)


async def _resume(namesrv: str, broker: str, *, dry_run: bool, ask: bool) -> WriteState:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if dry_run:
            return (await admin.plan_pause_writes(broker)).state
        if ask:
            confirm(f"Let {broker} take messages again?")
        return await admin.resume_writes(broker)
