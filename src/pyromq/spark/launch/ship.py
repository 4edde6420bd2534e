"""PyroMQ for a cluster that does not have it: the package travels with the session.

Spark's own means, a zip file, serve the executors of batch jobs, for user's functions too. Streams over Connect and
some of the processes that plan do not look at those files; for them the data source carries the package inside (see
`shipped_source`).

Only Python code travels. What it needs that was compiled must be in the cluster's Python: see NEEDED.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyromq.spark.launch.java import cache_directory, write_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

NEEDED = ("msgspec", "numpy", "pyarrow")
"""Packages that must be installed on the cluster. lz4 and zstandard are needed only for messages compressed by them."""

_LEFT_OUT = {"broker", "cli", "console", "namesrv", "testing"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_shipped: WeakKeyDictionary[SparkSession, bytes] = WeakKeyDictionary()


def ship(spark: SparkSession) -> type[DataSource]:
    """Give a session's executors the package, and return the data source to register, which brings it elsewhere."""
    archive = pack()
    name = blake2b(archive, digest_size=8).hexdigest()
    path = write_once(cache_directory() / f"pyromq-{name}.zip", archive)  # stays: executors that come later ask for it
    spark.addArtifacts(str(path), pyfile=True)
    _shipped[spark] = archive
    return source_with_package(archive)


def function_with_package(spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for `foreachBatch`, which over Connect runs at the server, where the package may be missing."""
    archive = _shipped.get(spark)
    return function if archive is None else _by_value().CarriedFunction(archive, NEEDED, function)


def pack() -> bytes:
    """Return the package as a zip file, the same bytes each time, without what no cluster needs."""
    package, buffer = Path(__file__).parent.parent.parent, io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package)
            if inside.parts[0] not in _LEFT_OUT:
                entry = zipfile.ZipInfo(f"pyromq/{inside.as_posix()}", _EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def source_with_package(archive: bytes) -> type[DataSource]:
    """Return format "pyromq" as a class that Spark pickles by value, with the package inside."""
    return type("PyroMQDataSource", (_by_value().CarriedSource,), {"archive": archive, "needed": NEEDED})


def _by_value() -> Any:
    """Return the module `shipped_source`, of which Spark then pickles all that it needs."""
    from pyspark import cloudpickle

    from pyromq.spark.launch import shipped_source

    cloudpickle.register_pickle_by_value(shipped_source)  # type: ignore[no-untyped-call]
    return shipped_source
