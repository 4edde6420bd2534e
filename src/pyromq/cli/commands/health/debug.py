"""`pyromq debug`: one archive for whoever helps from afar."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pyromq.admin import AdminClient, BundleReport, BundleSources, DebugBundle
from pyromq.admin.support.bundle import log_files
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.server_settings import DEFAULT_DATA
from pyromq.cli.show.lines import counted, json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run

DEFAULT_CONSOLE = "http://127.0.0.1:8080"

app = Family(help="Collect what is needed to look into a problem.")


@app.callback()
def _family() -> None:
    """Collect what is needed to look into a problem."""


@app.command()
def bundle(
    namesrv: Namesrv = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The archive to write.", show_default="pyromq-debug-TIME.tar.gz")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="A store directory; may be repeated.", show_default="./pyromq-data, if it exists"),
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("-c", "--config", help="A configuration file; may be repeated.")
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option("--log", help="A log file; may be repeated.", show_default="*.log and logs/ in the directories"),
    ] = None,
    http: Annotated[
        list[str] | None,
        typer.Option(
            "--http", metavar="URL", help="A console or --http-port; may be repeated.", show_default=DEFAULT_CONSOLE
        ),
    ] = None,
    http_token_file: Annotated[
        Path | None, typer.Option("--http-token-file", help="The file with the bearer token of those pages.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write configuration, logs, metrics and states into one archive.

    Passwords, keys and tokens are removed, wherever they stand, and no message is read. Look into it before you send it
    away: names of topics, groups and machines stay. What cannot be collected is listed in errors.json.
    """  # fmt: skip
    now = datetime.now(UTC)
    file = out or Path(f"pyromq-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    directories = tuple(data or ([DEFAULT_DATA] if DEFAULT_DATA.is_dir() else []))
    sources = BundleSources(
        data=directories,
        configs=tuple(config or ()),
        logs=tuple(log if log is not None else log_files(directories)),
        http=tuple(http if http is not None else [DEFAULT_CONSOLE]),
        http_token=http_token_file.read_text().strip() if http_token_file is not None else "",
        environment=dict(os.environ),
    )
    report = run(_bundle(namesrv_addresses(namesrv), file, sources))
    if as_json:
        print(json_line({"file": str(report.file), "entries": list(report.entries), "missing": dict(report.missing)}))
        return
    for name, reason in report.missing.items():
        print(printable(f"not included: {name}: {reason}"), file=sys.stderr)
    files, places = counted(len(report.entries), "file"), counted(report.removed, "place")
    print(f"{report.file}: {files}; secrets removed in {places}")


async def _bundle(namesrv: str, file: Path, sources: BundleSources) -> BundleReport:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await DebugBundle(sources).write(admin, file)
