"""`pyromq store`: inspect, verify, repair, back up or serve a store directory, without its broker."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from pyromq.admin.views.iso_times import iso_time, with_iso_times
from pyromq.broker.config.broker_config import BrokerConfig, broker_config
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.sides.read_only import ReadOnlyBroker
from pyromq.cli.arguments import AsJson, DryRun, Yes, confirm
from pyromq.cli.family import Family
from pyromq.cli.server_logs import server_command
from pyromq.cli.server_settings import BROKER_PORT, port_from, port_option, read_settings, stop_signals
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import counted, json_line
from pyromq.cli.show.progress import progress
from pyromq.clock import SystemClock
from pyromq.errors import ConfigError
from pyromq.namesrv.server import NameServer
from pyromq.protocol.codes import PERM_READ
from pyromq.remoting.loop import run
from pyromq.settings.values import addresses
from pyromq.store.check.backup import BackupSize, StoreBackup
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.check.inspect import Inspection
from pyromq.store.check.repair import Repair
from pyromq.store.check.verify import StoreCheck
from pyromq.store.config import StoreConfig
from pyromq.store.read.reader import StoreReader

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory that holds commitlog/, or whose store/ does.")
]
CommitLog = Annotated[
    list[Path] | None,
    typer.Option(
        "--commit-log", exists=True, file_okay=False, help="The commit log, if it is not in DIR; may be repeated."
    ),
]

app = Family(help="A store directory: verify, repair, inspect, back up or serve it.")


@app.command()
def verify(directory: Directory, commit_log: CommitLog = None, as_json: AsJson = False) -> None:
    """Check every record, queue entry, index entry and table.

    The exit code is 0 if all is well and 1 if not. Nothing is changed. A broker may be running; what it writes
    meanwhile is not checked.
    """
    _, findings = _checked(directory, commit_log, as_json)
    if _problems(findings):
        raise typer.Exit(1)


@app.command()
def repair(
    directory: Directory,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="The broker.conf of its broker.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Repair what `verify` finds.

    Everything readable is kept, and replaced files go to quarantine/.
    """
    settings, _ = read_settings(BROKER_TABLE, config, ())
    check, findings = _checked(directory, None, as_json=False)
    plan = Repair(check, findings, broker_config(settings, lenient=True).store, SystemClock().now_ms)
    if not plan.steps:
        print("nothing to repair")
        return
    for step in plan.steps:
        print(f"to do: {step.text}")
    if dry_run:
        return
    if not yes:
        confirm(f"Repair {check.root}?")
    plan.run()
    print("checking again")
    _, findings = _checked(directory, None, as_json=False)
    if _problems(findings):
        raise typer.Exit(1)


def _checked(directory: Path, commit_log: list[Path] | None, as_json: bool) -> tuple[StoreCheck, list[Finding]]:
    """Check a directory and print each finding at once."""
    findings = []
    with progress() as bar:
        task = bar.add_task("checking the log", total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        check = StoreCheck(directory, commit_log=commit_log or (), on_progress=show)
        for finding in check.run():
            findings.append(finding)
            print(msgspec.json.encode(finding).decode() if as_json else finding, flush=True)
    if not as_json:
        count = _problems(findings)
        problems = counted(count, "problem") if count else "no problems"
        print(f"{check.root}: {counted(check.records, 'message')}, {check.bytes_read:,} bytes of log, {problems}")
    return check, findings


def _problems(findings: list[Finding]) -> int:
    return sum(finding.severity is Severity.PROBLEM for finding in findings)


@app.command()
def inspect(directory: Directory, commit_log: CommitLog = None, as_json: AsJson = False) -> None:
    """Show what a directory holds: messages, times, offsets, delayed messages."""
    with StoreReader(directory, commit_log=commit_log or ()) as reader:
        found = Inspection(reader)
        if as_json:
            for kind, values in (("store", [found.summary()]), ("queue", found.queues), ("offset", found.offsets())):
                for value in values:
                    print(json_line({"kind": kind} | with_iso_times(msgspec.to_builtins(value))))
        else:
            _show(found)


def _show(found: Inspection) -> None:
    console = output()
    summary = Table("what", "value", title="store")
    for name, value in with_iso_times(msgspec.to_builtins(found.summary(), str_keys=True)).items():
        summary.add_row(name, str(value))
    queues = Table("topic", "queue", "min", "max", "messages", "last stored", title="queues")
    for queue in found.queues:
        last = iso_time(queue.last_store_timestamp_ms) if queue.messages else ""
        queues.add_row(
            queue.topic, str(queue.queue_id), str(queue.min_offset), str(queue.max_offset), str(queue.messages), last
        )
    offsets = Table("group", "topic", "queue", "committed", "lag", title="committed offsets")
    for one in found.offsets():
        offsets.add_row(one.group, one.topic, str(one.queue_id), str(one.committed_offset), str(one.lag))
    for table in (summary, queues, offsets):
        console.print(table)


@app.command()
def backup(
    directory: Directory,
    target: Annotated[Path, typer.Argument(metavar="TO", help="The directory of the copy; it must be new or empty.")],
    commit_log: CommitLog = None,
    dry_run: DryRun = False,
) -> None:
    """Copy a directory while its broker runs.

    The copy is as a crash would leave the directory: a broker that starts with it recovers it first. An interrupted
    backup leaves nothing under the name TO.
    """
    with progress() as bar:
        task = bar.add_task("copying", total=None)

        def show(size: BackupSize) -> None:
            bar.update(task, completed=size.bytes, total=total.bytes)

        plan = StoreBackup(directory, target, commit_log=commit_log or (), on_progress=show)
        total = plan.measure()
        if dry_run:
            print(
                f"would copy {counted(total.files, 'file')}, {total.bytes:,} bytes, from {plan.root} to {plan.target}"
            )
            return
        done = plan.run()
    print(f"copied {counted(done.files, 'file')}, {done.bytes:,} bytes, from {plan.root} to {plan.target}")


@app.command()
@server_command
def serve(
    directory: Directory,
    namesrv: Annotated[
        str | None, typer.Option("-n", "--namesrv", help="Register there; without it, start a name server.")
    ] = None,
    namesrv_port: Annotated[int, port_option("Port of the started name server.")] = 9876,
    port: Annotated[int, port_option("Port of the broker.")] = 10911,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    name: Annotated[str, typer.Option(help="Name of the broker.")] = "broker-a",
    commit_log: CommitLog = None,
) -> None:
    """Serve a directory or a backup, read-only, to any 4.x client.

    Committed offsets start as in the directory. New commits are accepted, and lost when the command ends.
    """
    reader = StoreReader(directory, commit_log=commit_log or ())

    async def start() -> None:
        stopped = stop_signals()
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            address = namesrv
            if address is None:
                server = NameServer(host=host, port=namesrv_port, clock=clock, data_dir=None)
                with port_from("--namesrv-port"):
                    address = (await stack.enter_async_context(server)).address
            config = _read_only_config(reader, host, port, name, address)
            with port_from(BROKER_PORT):
                broker = await stack.enter_async_context(ReadOnlyBroker(config, clock, reader))
            typer.echo(f"PyroMQ store ready: namesrv {address} broker {broker.address} read-only {reader.root}")
            await stopped.wait()

    run(start())


def _read_only_config(reader: StoreReader, host: str, port: int, name: str, namesrv: str) -> BrokerConfig:
    try:
        name_servers = addresses(namesrv)
    except ValueError as error:
        raise ConfigError(f"--namesrv {error}") from None
    return BrokerConfig(
        store=StoreConfig(root=reader.root),
        host=host,
        port=port,
        name=name,
        namesrv=name_servers,
        permission=PERM_READ,
        auto_create_topics=False,
        max_topics=1 << 31,  # whatever the directory has
        property_filter=True,
    )
