"""All texts of the console: what templates and modules give to `t`, and texts that tables hold for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jinja2.nodes

import pyromq.console
from pyromq.admin.messages.consumption import ConsumptionState
from pyromq.console.login.roles import UserRole
from pyromq.console.reading.features import OURS_ONLY
from pyromq.console.screens import groups, pipelines, topics
from pyromq.console.web.navigation import menu_texts
from pyromq.console.web.templating import environment
from pyromq.pipelines.catalog import CATALOG

ROOT = Path(pyromq.console.__file__).parent
KINDS = ("topic", "retry", "dead letters", "delayed", "system")
"""Kinds of topics, which templates translate by their variables."""
BOTTLENECKS = ("handling", "pulling", "none")


def texts() -> set[str]:
    """Return every text that is translated."""
    tables = {*menu_texts(), *OURS_ONLY.values(), *KINDS, *BOTTLENECKS}
    tables |= {state.value for state in ConsumptionState} | set(pipelines.TONES) | {"refused"}
    tables |= {summary for name, summary in CATALOG.items() if name != "orders"}
    tables |= {role.word for role in UserRole if role is not UserRole.PUBLIC}
    tables |= {label for kinds in (topics.KINDS, groups.KINDS) for label, _ in kinds.values()}
    return {*of_templates(), *of_modules(), *tables}


def of_templates() -> Iterator[str]:
    """Yield the texts of all templates."""
    for path in sorted((ROOT / "templates").rglob("*.html")):
        for call in environment().parse(path.read_text()).find_all(jinja2.nodes.Call):
            is_text = isinstance(call.node, jinja2.nodes.Name) and call.node.name == "t" and call.args
            if is_text and isinstance(call.args[0], jinja2.nodes.Const):
                yield call.args[0].value


def of_modules() -> Iterator[str]:
    """Yield the texts of all modules: arguments of `t(…)` and `….t(…)`, and the words of Trouble."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name == "t" and node.args and isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value)
                if name == "Trouble":
                    for keyword in node.keywords:
                        if keyword.arg in ("text", "advice") and isinstance(keyword.value, ast.Constant):
                            yield str(keyword.value.value)
