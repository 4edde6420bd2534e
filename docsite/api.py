"""Pages of the public Python names; mkdocstrings fills them from docstrings and signatures."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pyromq

FOLDER: Final = "api"

_APP: Final = ("App", "HandlerCall", "Proceed", "State")
_CLIENTS: Final = (
    "Producer",
    "TransactionProducer",
    "PushConsumer",
    "LitePullConsumer",
    "Message",
    "MessageExt",
    "MessageQueue",
    "SendResult",
    "PendingResult",
    "SendStatus",
    "TransactionResult",
)
_MODULES: Final = {
    "admin": ("Administration", "pyromq.admin"),
    "blocking": ("Without `await`", "pyromq.blocking"),
    "codecs": ("Codecs", "pyromq.codecs"),
    "idempotent": ("Idempotent consumers", "pyromq.idempotent"),
    "outbox": ("Outbox", "pyromq.outbox"),
    "testing": ("Tests", "pyromq.testing"),
    "spark": ("Spark", "pyromq.spark"),
}


def api_pages() -> dict[str, str]:
    """Return the pages by their place on the site."""
    names = [name for name in pyromq.__all__ if pyromq._HOMES[name] != "errors"]
    others = sorted((name for name in names if name not in (*_APP, *_CLIENTS)), key=str.lower)
    pages = {
        "app": _page("App", "`from pyromq import …`", [_home("pyromq", name) for name in _APP]),
        "clients": _page("Clients", "`from pyromq import …`", [_home("pyromq", name) for name in _CLIENTS]),
        "options": _page(
            "Options, outcomes and hooks", "`from pyromq import …`", [_home("pyromq", name) for name in others]
        ),
    }
    for page, (title, module) in _MODULES.items():
        public = import_module(module).__all__
        pages[page] = _page(title, f"`from {module} import …`", [_home(module, name) for name in public])
    pages["errors"] = _page("Errors", "`from pyromq.errors import …`", ["pyromq.errors"])
    return {f"{FOLDER}/{name}.md": text for name, text in pages.items()}


def _home(module: str, name: str) -> str:
    """Return the full name of a public name, where it is defined."""
    value = getattr(import_module(module), name)
    home = getattr(value, "__module__", None)
    if isinstance(home, str) and home.startswith("pyromq") and getattr(value, "__qualname__", "") == name:
        return f"{home}.{name}"
    return f"pyromq.{pyromq._HOMES[name]}.{name}" if module == "pyromq" else f"{module}.{name}"


def _page(title: str, line: str, names: list[str]) -> str:
    return "\n\n".join([f"# {title}", line, *(f"::: {name}" for name in names)]) + "\n"
