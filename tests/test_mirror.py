"""The house stays tidy: tests lie beside their module, folders fit a glance, files stay short, names mean one thing."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pyromq"
TESTS = ROOT / "tests"

MOST_ENTRIES = 18
MOST_LINES = 500
BESIDE_THE_TREE = ("conformance", "faults", "integration", "spark/cluster")  # they test the whole, not one package
MANY_ENTRIES = {SOURCE}  # the layers themselves, and the modules that are open to all


def modules(package: Path) -> dict[str, set[Path]]:
    """Return the folders in which a package has a module of each name; a room counts in its own folder too."""
    found: dict[str, set[Path]] = {}
    for path in package.rglob("*.py"):
        home = path.parent.relative_to(SOURCE)
        if path.name == "__init__.py":
            found.setdefault(home.name, set()).update((home, home.parent))
        else:
            found.setdefault(path.stem, set()).add(home)
    return found


TEST_FILES = [
    path
    for path in sorted(TESTS.rglob("test_*.py"))
    if path.parent != TESTS and not path.relative_to(TESTS).as_posix().startswith(BESIDE_THE_TREE)
]


def test_folders_of_tests_mirror_those_of_the_sources() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TEST_FILES}
    assert sorted(str(folder) for folder in folders if not (SOURCE / folder).is_dir()) == []


def test_a_test_named_after_a_module_lies_where_the_module_lies() -> None:
    """A test of behaviour may have any other name; one that has a module's name must be found beside it."""
    astray = []
    for path in TEST_FILES:
        inside = path.relative_to(TESTS)
        homes = modules(SOURCE / inside.parts[0]).get(path.stem.removeprefix("test_"))
        if homes and inside.parent not in homes:
            astray.append(f"{inside} tests a module of {', '.join(sorted(map(str, homes)))}")
    assert astray == []


def test_a_folder_fits_a_glance() -> None:
    """Where this fails, make a room of what belongs together, or join modules of one idea."""
    folders = {path.parent for path in SOURCE.rglob("*.py")} - MANY_ENTRIES
    made = {".so", ".pyd"}  # built here, and no part of the tree
    entries = {
        folder: [path for path in folder.iterdir() if path.name != "__pycache__" and path.suffix not in made]
        for folder in folders
    }
    counts = {str(folder.relative_to(ROOT)): len(found) for folder, found in entries.items()}
    assert {name: count for name, count in counts.items() if count > MOST_ENTRIES} == {}


def test_no_file_is_too_long() -> None:
    files = [path for top in (SOURCE, TESTS) for path in top.rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files}
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_no_two_classes_share_a_name() -> None:
    """Blocking twins are the same thing; each pipeline has its Options."""
    homes: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if not path.stem.startswith("blocking"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert {name: places for name, places in homes.items() if len(places) > 1 and name != "Options"} == {}
