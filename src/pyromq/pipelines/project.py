"""Projects of Spark's Declarative Pipelines: a template, and `spark-pipelines` started with what it needs.

The template has only temporary views and sinks: those run again and again without a catalog; tables would need one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Literal, NoReturn

from pyromq.errors import ConfigError
from pyromq.spark.java import prepare_environment

_SPECS = ("spark-pipeline.yml", "spark-pipeline.yaml")
_TEMPLATE = Path(__file__).with_name("project_template")
_SUFFIX = ".template"
_SETTINGS = ("spark.ui.enabled=false", "spark.ui.showConsoleProgress=false", "spark.log.level=ERROR")


def is_project(directory: Path) -> bool:
    """Tell whether a directory has the specification of a pipeline."""
    return any((directory / name).is_file() for name in _SPECS)


def write(directory: Path, namesrv: str, topic: str, to: str) -> list[Path]:
    """Write the template into a directory that is new or empty; return the files."""
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty: choose a new directory")
    values = {"name": directory.resolve().name, "namesrv": namesrv, "topic": topic, "to": to}
    values["storage"] = (directory.resolve() / "storage").as_uri()
    written = []
    for source in sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")):
        path = directory / source.relative_to(_TEMPLATE).with_suffix("")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(source.read_text()).substitute(values))
        written.append(path)
    return written


def execute(
    directory: Path, verb: Literal["run", "dry-run"], *, master: str | None, remote: str | None, conf: Sequence[str]
) -> NoReturn:
    """Become `spark-pipelines`: its exit code is ours."""
    if not is_project(directory):
        raise ConfigError(f"{directory} has no {_SPECS[0]}: pyromq pipeline init {directory} writes one")
    if any(text.replace(" ", "") == "spark.speculation=true" for text in conf):
        raise ConfigError("spark.speculation=true runs tasks twice, and a sink would send twice: leave it out")
    spec = next(directory / name for name in _SPECS if (directory / name).is_file())
    prepare_environment(local=not (remote or (master or "local").startswith("spark:")))
    before = [word for setting in (*_SETTINGS, *conf) for word in ("--conf", setting)]
    before += ["--remote", remote] if remote else ["--master", master] if master else []
    os.execv(_program(), [_program(), *before, verb, "--spec", str(spec)])  # noqa: S606 - no shell is wanted


def _program() -> str:
    """Return Spark's own program: that of this Python, wherever the PATH leads."""
    if find_spec("pyspark") is None or find_spec("grpc") is None or find_spec("yaml") is None:
        raise ConfigError("Spark with its pipelines is not installed: pip install 'pyromq[spark]'")
    beside = Path(sys.executable).with_name("spark-pipelines")
    found = str(beside) if beside.exists() else shutil.which("spark-pipelines")
    if found is None:
        raise ConfigError("spark-pipelines, which comes with PySpark, is not on the PATH")
    return found
