"""Ships PyroMQ to a cluster that does not have it: the session carries the package.

For batch jobs and users' functions, Spark itself gives executors the package as a zip file. Streams over Connect and
some planning processes ignore such files; for them the data source contains the package (see `shipped_source`).

Only Python code is shipped. The compiled packages that it needs must be installed on the cluster: see NEEDED.
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
"""Packages that must be installed on the cluster; lz4 and zstandard only for messages compressed with them."""

_LEFT_OUT = {"broker", "cli", "console", "namesrv", "testing"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_shipped: WeakKeyDictionary[SparkSession, bytes] = WeakKeyDictionary()


def ship(spark: SparkSession) -> type[DataSource]:
    """Give a session's executors the package; return the data source to register, which carries it everywhere else."""
    archive = pack()
    name = blake2b(archive, digest_size=8).hexdigest()
    path = write_once(cache_directory() / f"pyromq-{name}.zip", archive)  # kept: executors that start later fetch it
    spark.addArtifacts(str(path), pyfile=True)
    _shipped[spark] = archive
    return source_with_package(archive)


def function_with_package(spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function for `foreachBatch`, which over Connect runs on the server, where the package may be missing."""
    archive = _shipped.get(spark)
    return function if archive is None else _module_by_value().ShippedFunction(archive, NEEDED, function)


def pack() -> bytes:
    """Return the package as a zip file, always the same bytes, without the parts that no cluster needs."""
    package, buffer = Path(__file__).parent.parent.parent, io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package)
            if inside.parts[0] not in _LEFT_OUT:
                entry = zipfile.ZipInfo(f"pyromq/{inside.as_posix()}", _EPOCH)
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def source_with_package(archive: bytes) -> type[DataSource]:
    """Return format "pyromq" as a class that Spark pickles by value and that contains the package."""
    return type("PyroMQDataSource", (_module_by_value().ShippedSource,), {"archive": archive, "needed": NEEDED})


def _module_by_value() -> Any:
    """Return the module `shipped_source`, prepared so that Spark pickles it by value."""
    from pyspark import cloudpickle

    from pyromq.spark.launch import shipped_source

    cloudpickle.register_pickle_by_value(shipped_source)  # type: ignore[no-untyped-call]
    return shipped_source
