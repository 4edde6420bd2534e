"""What our own code never does with what it was given."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "pyromq"
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill"}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _faults(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            is_shell = any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords)
            if _name(node.func) in FORBIDDEN_CALLS or is_shell:
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)[:80]}")
        elif isinstance(node, ast.Import):
            found += [f"{path.name}:{node.lineno} {each.name}" for each in node.names if each.name in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_MODULES:
            found.append(f"{path.name}:{node.lineno} {node.module}")
    return found


def test_no_shell_no_eval_no_pickle_and_only_safe_yaml() -> None:
    assert [fault for path in sorted(SOURCE.rglob("*.py")) for fault in _faults(path)] == []


@pytest.mark.parametrize("text", ["import pickle", "eval(x)", "subprocess.run(x, shell=True)", "yaml.load(x)"])
def test_it_would_be_found(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text)
    assert _faults(tmp_path / "bad.py")
