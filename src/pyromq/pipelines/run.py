"""Start pipelines: a session that has found its Java, and errors that are one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError, PyroMQError
from pyromq.pipelines.outcome import Stopped
from pyromq.spark.errors import one_line
from pyromq.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "FATAL",  # else an error is a page of Java before it is our line
}
_SPECULATION = "spark.speculation"


@contextmanager
def opened(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    ship: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give a session for a pipeline; what Spark raises comes out as a PyroMQError of one line."""
    conf = dict(conf or {})
    if conf.get(_SPECULATION, "").lower() == "true":
        raise ConfigError(f"{_SPECULATION}=true runs tasks twice, and a sink would send twice: leave it out")
    with one_line_errors():
        defaults = {} if remote else _SETTINGS
        spark = session(f"pyromq {name}", master=master, remote=remote, ship=ship, conf=defaults | conf)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn whatever Spark raises into a PyroMQError with one line."""
    try:
        yield
    except (PyroMQError, Stopped, OSError):
        raise
    except Exception as error:  # Spark's, Py4J's and gRPC's have no root in common
        raise PyroMQError(one_line(error)) from error
