"""`pyromq top`: live rates and lag in the terminal."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

import typer
from rich.live import Live

from pyromq.admin import AdminClient, Overview
from pyromq.admin.views.health_view import overview_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses, parse_duration
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line
from pyromq.cli.top.keyboard import pressed_keys
from pyromq.cli.top.screen import VIEWS, Screen
from pyromq.client.environment import environment_credentials
from pyromq.errors import PyroMQError
from pyromq.remoting.loop import run

_SHORTEST = 0.2

app = Family()


@app.command()
def top(
    namesrv: Namesrv = None,
    view: Annotated[str, typer.Option(help="What to show first: groups, topics or brokers.")] = "groups",
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to sort by.", show_default="lag, or in/s")
    ] = None,
    filter_text: Annotated[str, typer.Option("--filter", help="Only rows whose name contains this text.")] = "",
    interval: Annotated[str, typer.Option(help="How often to ask the brokers.")] = "2s",
    everything: Annotated[bool, typer.Option("--all", help="Include RocketMQ's own groups and topics.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print it once and stop; so it is without a terminal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show rates and lag of groups, topics and brokers, live.

    Keys: 1, 2, 3 choose the view, s sorts by the next column, r reverses, / filters, space pauses, q quits. Lag and its
    seconds are those of `group describe`. Rates are those since the last look; the first are brokers' averages of the
    last minute. --json prints brokers, topics and groups as one object.
    """
    seconds = parse_duration(interval, "--interval").total_seconds()
    if seconds < _SHORTEST:
        raise typer.BadParameter(f"--interval must be at least {_SHORTEST * 1000:g}ms")
    if view not in VIEWS:
        raise typer.BadParameter(f"--view must be one of {', '.join(VIEWS)}, not {view!r}")
    columns = [column.name for column in VIEWS[view]]
    if sort is not None and sort not in columns:
        raise typer.BadParameter(f"--sort must be one of {', '.join(columns)}, not {sort!r}")
    screen = Screen(view, sort, filter_text, everything)
    address = namesrv_addresses(namesrv)
    if as_json:
        print(json_line(overview_fields(run(_once(address)))))
    elif once or not output().is_terminal:
        output().print(screen.draw(run(_once(address))))
    else:
        run(_live(address, screen, seconds))


async def _once(namesrv: str) -> Overview:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.overview()


async def _live(namesrv: str, screen: Screen, interval: float) -> None:
    console = output()
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        latest = shown = await admin.overview()
        with pressed_keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            asking = asyncio.create_task(_next(admin, interval))
            try:
                while not screen.is_over:
                    live.update(screen.draw(shown, console.height), refresh=True)
                    await _key_or(asking, keys, screen)
                    if asking.done():
                        answer = asking.result()
                        screen.problem = answer if isinstance(answer, str) else ""
                        before, latest = latest, latest if isinstance(answer, str) else answer
                        if not screen.is_paused and latest is not before:
                            shown = latest.since(before)
                        asking = asyncio.create_task(_next(admin, interval))
            finally:
                asking.cancel()
                with suppress(asyncio.CancelledError):
                    await asking


async def _next(admin: AdminClient, interval: float) -> Overview | str:
    """Return the overview after a while, or why there is none this time."""
    await asyncio.sleep(interval)
    try:
        return await admin.overview()
    except PyroMQError as error:
        return str(error)


async def _key_or(asking: asyncio.Task[Overview | str], keys: asyncio.Queue[str], screen: Screen) -> None:
    """Wait for the next overview or for keys, and do what they mean."""
    key = asyncio.create_task(keys.get())
    await asyncio.wait((key, asking), return_when=asyncio.FIRST_COMPLETED)
    if not key.done():
        key.cancel()
        return
    screen.press(key.result())
    while not keys.empty():
        screen.press(keys.get_nowait())
