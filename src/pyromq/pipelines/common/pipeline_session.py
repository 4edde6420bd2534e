"""Sessions for pipelines: Java found, output quiet, errors in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyromq.errors import PyroMQError
from pyromq.pipelines.common.quiet import quiet_jvm
from pyromq.pipelines.outcome import Stopped
from pyromq.spark.error_text import one_line
from pyromq.spark.session import session
from pyromq.spark.speculation import SETTING, refuse_speculation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.log.level": "FATAL",  # else Java prints a page before each error
}
_GO_ON = ("set failOnDataLoss=false to continue", "--no-fail-on-data-loss continues")
_GONE = "Spark's Java has ended, killed or out of memory: run the same command again to continue"


@contextmanager
def opened(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    ship: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Open a session for a pipeline; Spark's exceptions become a PyroMQError with one line."""
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
    refuse_speculation(conf.get(SETTING))


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn Spark's exceptions into a PyroMQError with one line."""
    try:
        yield
    except ConnectionError as error:  # raised by Py4J
        raise PyroMQError(_GONE) from error
    except (PyroMQError, Stopped, OSError):
        raise
    except Exception as error:  # Spark's, Py4J's and gRPC's have no root in common
        raise PyroMQError(one_line(error).replace(*_GO_ON)) from error
