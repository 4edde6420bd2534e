"""`pyromq cluster clean`: delete what brokers keep and nobody needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from pyromq.admin import AdminClient, BrokerCleaning
from pyromq.admin.maintenance.cleaning import CLEANABLE, Cleanable
from pyromq.admin.views.maintenance_view import cleaning_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses
from pyromq.cli.show.lines import json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run

_MOST_NAMED = 20


def clean(
    namesrv: Namesrv = None,
    broker: Annotated[str | None, typer.Option(help="Only at this broker.", show_default="all")] = None,
    expired_files: Annotated[
        bool, typer.Option("--expired-files", help="Files of the log older than fileReservedTime, whatever the hour.")
    ] = False,
    expired_queues: Annotated[
        bool, typer.Option("--expired-queues", help="Queues that their topics no longer have, with nothing left.")
    ] = False,
    unused_topics: Annotated[
        bool, typer.Option("--unused-topics", help="Queues of topics that the broker does not know.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="All three.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete what brokers keep and nobody needs.

    Brokers do this themselves at their hour (deleteWhen), except for unused topics. Slaves follow.
    """
    chosen = dict(zip(CLEANABLE, (expired_files, expired_queues, unused_topics), strict=True))
    what = [name for name, wanted in chosen.items() if wanted or everything]
    if not what:
        raise typer.BadParameter("what? give --expired-files, --expired-queues, --unused-topics or --all")
    plan = run(_clean(namesrv_addresses(namesrv), what, broker, dry_run=dry_run, ask=not yes))
    for one in plan:
        if as_json:
            print(json_line(cleaning_fields(one, what)))
        else:
            print(*_lines(one, what, "would go" if dry_run else "deleted"), sep="\n")


async def _clean(
    namesrv: str, what: Sequence[Cleanable], broker: str | None, *, dry_run: bool, ask: bool
) -> list[BrokerCleaning]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if dry_run or ask:
            plan = await admin.plan_cleaning(broker)
            if dry_run:
                return plan
            confirm(f"{'; '.join(line for one in plan for line in _lines(one, what, 'would go'))}. Delete that?")
        return await admin.clean(what, broker)


def _lines(one: BrokerCleaning, what: Sequence[Cleanable], verb: str) -> Iterator[str]:
    if one.found is None:
        yield f"{one.broker}: {', '.join(what).replace('_', ' ')}; it cannot say what that is: it is not PyroMQ's"
        return
    found = one.found
    if "expired_files" in what:
        yield f"{one.broker}: expired files: {found.expired_files:,} of {found.expired_bytes:,} bytes {verb}"
    if "expired_queues" in what:
        queues = [f"{topic}:{queue_id}" for topic, queue_id in found.expired_queues]
        yield f"{one.broker}: expired queues: {_named(queues, found.expired_queue_count, verb)}"
    if "unused_topics" in what:
        yield f"{one.broker}: unused topics: {_named(found.unused_topics, found.unused_topic_count, verb)}"


def _named(names: Sequence[str], count: int, verb: str) -> str:
    if not names:
        return f"none {verb}"
    more = f" and {count - _MOST_NAMED:,} more" if count > _MOST_NAMED else ""
    return printable(f"{count:,} {verb}: {', '.join(names[:_MOST_NAMED])}{more}")
