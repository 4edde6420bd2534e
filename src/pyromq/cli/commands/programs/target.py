"""The argument that names an App."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The App: shop:app is `app = App(...)` in shop.py.")]
