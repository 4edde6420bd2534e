"""`pyromq docs`: what an App receives and sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.app.asyncapi import asyncapi
from pyromq.app.running.loading import load_app
from pyromq.cli.commands.programs.target import Target
from pyromq.cli.family import Family
from pyromq.cli.show.app_page import app_page

app = Family()


@app.command()
def docs(
    target: Target,
    out: Annotated[
        Path | None, typer.Option(help="Write asyncapi.json and index.html into this directory.", file_okay=False)
    ] = None,
) -> None:
    """Describe an App: an AsyncAPI 3 document, and its page with --out."""
    api: dict[str, Any] = asyncapi(load_app(target))
    text = json.dumps(api, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "asyncapi.json").write_text(text, encoding="utf-8")
    (out / "index.html").write_text(app_page(api), encoding="utf-8")
    typer.echo(f"wrote {out / 'asyncapi.json'} and {out / 'index.html'}")
