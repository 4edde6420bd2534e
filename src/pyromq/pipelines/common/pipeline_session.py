"""Start pipelines: a session that has found its Java, and errors that are one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyromq.errors import ConfigError, PyroMQError
from pyromq.pipelines.common.quiet import quiet_jvm
from pyromq.pipelines.outcome import Stopped
from pyromq.spark.error_text import one_line
from pyromq.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "FATAL",  # else an error is a page of Java before it is our line
}
_GO_ON = ("set failOnDataLoss=false to go on", "--no-fail-on-data-loss goes on")
_GONE = "Spark's Java has ended, stopped from outside or out of memory: the same command goes on from here"
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
    check_settings(conf)
    with one_line_errors():
        defaults = {} if remote else _SETTINGS
        with quiet_jvm():
            spark = session(f"pyromq {name}", master=master, remote=remote, ship=ship, conf=defaults | conf)
        try:
            yield spark
        finally:
            spark.stop()


def check_settings(conf: Mapping[str, str]) -> None:
    """Raise ConfigError if tasks would run speculatively."""
    if conf.get(_SPECULATION, "").lower() == "true":
        raise ConfigError(f"{_SPECULATION}=true runs tasks twice, and a sink would send twice: leave it out")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn whatever Spark raises into a PyroMQError with one line."""
    try:
        yield
    except ConnectionError as error:  # Py4J's, plain as it is
        raise PyroMQError(_GONE) from error
    except (PyroMQError, Stopped, OSError):
        raise
    except Exception as error:  # Spark's, Py4J's and gRPC's have no root in common
        raise PyroMQError(one_line(error).replace(*_GO_ON)) from error
