"""What our own code never does with what it was given."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pyromq"
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.unsafe_load", "yaml.full_load"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill"}
SAFE_LOADERS = {"getattr(yaml, 'CBaseLoader', yaml.BaseLoader)"}
OWN_PIPES = "app/worker_processes.py"
"""Parent and child of one program: what they pickle never comes from outside."""


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_safe(tree: ast.Module, call: ast.Call) -> bool:
    """Return True if a call of yaml.load names a loader of its module that makes texts, lists and mappings only."""
    loaders = {
        _name(node.targets[0])
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in SAFE_LOADERS
    }
    return len(call.args) == 2 and _name(call.args[1]) in loaders


def _faults(path: Path) -> list[str]:
    found = []
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = _name(node.func)
            is_shell = "subprocess" in called and any(
                word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords
            )
            loads_more = called == "yaml.load" and not _is_safe(tree, node)
            if called in FORBIDDEN_CALLS or is_shell or loads_more:
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)[:80]}")
        elif isinstance(node, ast.Import):
            found += [f"{path.name}:{node.lineno} {each.name}" for each in node.names if each.name in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_MODULES:
            found.append(f"{path.name}:{node.lineno} {node.module}")
    return found


def test_no_shell_no_eval_no_pickle_and_only_safe_yaml() -> None:
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if path != SOURCE / OWN_PIPES]
    assert [fault for path in paths for fault in _faults(path)] == []


@pytest.mark.parametrize(
    "text", ["import pickle", "eval(x)", "subprocess.run(x, shell=True)", "yaml.load(x)", "yaml.load(x, yaml.Loader)"]
)
def test_it_would_be_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text)
    assert _faults(tmp_path / "bad.py")
