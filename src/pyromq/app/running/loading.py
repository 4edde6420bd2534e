"""Loading: the App that `module:app` names."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pyromq.app.application import App
from pyromq.errors import ConfigError

_FORM = "module:app, such as shop:app for `app = App(...)` in shop.py"


def load_app(target: str) -> App:
    """Import a module and return its App; raises ConfigError that says what is wrong."""
    name, _, attribute = target.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        raise ConfigError(f"{target!r} does not name an App: expected {_FORM}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"{name} cannot be imported: {error}") from error
        raise ConfigError(f"there is no module {name!r} in {os.getcwd()} or among the installed ones") from None
    except Exception as error:
        place = _place(error, name)
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {error}{place}") from error
    return _app_in(module, name, attribute or "app")


def _app_in(module: Any, name: str, attribute: str) -> App:
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = [each for each, value in vars(module).items() if isinstance(value, App)]
    if not apps:
        raise ConfigError(f"{name} has no App: write `app = App(...)` in it")
    near = get_close_matches(attribute, apps, n=1) or apps
    raise ConfigError(f"{name}:{attribute} is not an App; did you mean {name}:{near[0]}?")


def _place(error: BaseException, name: str) -> str:
    """Return the last line of the user's own code that an error passed."""
    if isinstance(error, SyntaxError):
        return ""  # its text says where
    lines = list(_lines(error))
    return f" ({lines[-1]})" if lines else ""


def _lines(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "importlib" not in file and not file.startswith("<") and f"{os.sep}pyromq{os.sep}app{os.sep}" not in file:
            yield f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
