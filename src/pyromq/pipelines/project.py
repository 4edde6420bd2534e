"""Projects of Spark's Declarative Pipelines: a template, and runs whose errors are one line.

The template has only temporary views and sinks, which can run repeatedly without a catalog; tables would need one.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from string import Template
from typing import TextIO

from pyromq.errors import ConfigError, PyroMQError
from pyromq.pipelines.common.pipeline_session import check_settings
from pyromq.pipelines.common.quiet import quiet_jvm
from pyromq.protocol.names import check_topic
from pyromq.spark.error_text import one_line
from pyromq.spark.launch.addresses import check_reachable
from pyromq.spark.session import connect, start

_SPECS = ("spark-pipeline.yml", "spark-pipeline.yaml")
_TEMPLATE = Path(__file__).with_name("project_template")
_SUFFIX = ".template"
_SETTINGS = {
    "spark.api.mode": "connect",  # pipelines run over Connect, here with a server inside this process
    "spark.log.level": "FATAL",  # else Java prints a page before each error and at the end of every run
    "spark.sql.connect.serverStacktrace.enabled": "false",
}
_UNRESOLVED = re.compile(r"Failed to resolve flow: '(?P<flow>[^']*)'\.\s+Error: (?P<why>.*)", re.DOTALL)
_FOLLOWS = "Failed to read dataset"
"""The error of a flow that only reads from a broken one."""


def is_project(directory: Path) -> bool:
    """Return True if a directory has the specification of a pipeline."""
    return any((directory / name).is_file() for name in _SPECS)


def no_specification(directory: Path) -> str:
    """Return the error text for a directory that is not a project."""
    return f"{directory} has no {_SPECS[0]}: pyromq pipeline init creates a project in a new directory"


def write(directory: Path, namesrv: str, topic: str, to: str) -> list[Path]:
    """Write the template into a new or empty directory; return the files."""
    check_topic(topic)
    check_topic(to)
    if topic == to:
        raise ConfigError(f"the project would read its own output from {to!r}: choose another --to")
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


def execute(directory: Path, *, dry: bool, master: str | None, remote: str | None, conf: Mapping[str, str]) -> None:
    """Run a project, or only check it, as `spark-pipelines` does; raises PyroMQError with one line if that fails."""
    if not is_project(directory):
        raise ConfigError(no_specification(directory))
    check_settings(conf)
    _need_pipelines()
    specification = next(directory / name for name in _SPECS if (directory / name).is_file()).resolve()
    story = _RunOutput(sys.stdout)
    try:
        _open_session(directory.resolve().name, master, remote, conf)
        from pyspark.pipelines.cli import run

        with redirect_stdout(story):
            run(specification, full_refresh=[], full_refresh_all=False, refresh=[], dry=dry)
    except PyroMQError:
        raise
    except Exception as error:  # Spark's errors, and whatever the user's definitions raise
        raise PyroMQError(story.cause or _explained(error, specification.parent)) from error


class _RunOutput(StringIO):
    """Passes on the output of Spark's runner and picks out the cause, which the final exception does not name."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.cause = ""
        self._out = out

    def write(self, text: str) -> int:
        found = _UNRESOLVED.search(text)
        if found and not found["why"].startswith(_FOLLOWS):
            self.cause = f"flow {found['flow']}: {one_line(Exception(found['why']))}"
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()


def _open_session(name: str, master: str | None, remote: str | None, conf: Mapping[str, str]) -> None:
    """Start the session that Spark's own runner will find."""
    if remote:
        check_reachable(remote)
        os.environ["SPARK_REMOTE"] = remote
        connect(remote, conf)
    else:
        check_reachable(master or "")
        conf = _SETTINGS | _meeting_point() | dict(conf)
        # Spark warns about settings that only take effect at start, although they are set by then.
        with quiet_jvm(), warnings.catch_warnings(action="ignore"):
            start(f"pyromq {name}", master or "local[*]", conf)


def _meeting_point() -> dict[str, str]:
    """Return settings that let the Connect server in this process take any free port, and have clients ask it which.

    A port that is chosen here may be taken by another process before the server, some seconds later, listens on it.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    DefaultChannelBuilder.default_port = staticmethod(_server_port)  # type: ignore[method-assign]
    return {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}


def _server_port() -> int:
    from pyspark import SparkContext

    service = getattr(SparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())


def _explained(error: Exception, directory: Path) -> str:
    """Return the error as one line, with file and line number if it is in one of the project's files."""
    line = one_line(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename, directory)}, line {error.lineno}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if directory in Path(frame.filename).parents]
    if not frames:
        return line
    kind = type(error).__name__
    text = line if line == kind or type(error).__module__.startswith("pyspark") else f"{kind}: {line}"
    return f"{_shown(frames[-1].filename, directory)}, line {frames[-1].lineno}: {text}"


def _shown(file: str, directory: Path) -> str:
    path = Path(file)
    return str(path.relative_to(directory)) if directory in path.parents else file


def _need_pipelines() -> None:
    if find_spec("pyspark") is None or find_spec("grpc") is None or find_spec("yaml") is None:
        raise ConfigError("Spark with its pipelines is not installed: pip install 'pyromq[spark]'")
