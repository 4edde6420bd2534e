"""Format "pyromq" for machines without PyroMQ: a data source that carries the package with it, as bytes.

This whole module is pickled by value (see `ship`) and runs where the package cannot be imported yet. So it uses only
the standard library, Spark, and the archive it carries. It must not refer to names in other modules of the package.

    driver              planners                                executors
    ShippedSource  -->  unpack, then the real data source  -->  unpack, then the real reader or writer
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import zipfile
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any, ClassVar

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource


class Importer(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports modules from a zip file in memory."""

    def __init__(self, archive: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(archive)) as files:
            texts = {name.removesuffix(".py").replace("/", "."): files.read(name) for name in files.namelist()}
        self.packages = {name.removesuffix(".__init__") for name in texts if name.endswith(".__init__")}
        self.sources = {name.removesuffix(".__init__"): text.decode() for name, text in texts.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in self.sources else None

    def is_package(self, fullname: str) -> bool:
        return fullname in self.packages

    def get_source(self, fullname: str) -> str:
        return self.sources[fullname]

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.sources[fullname], f"<shipped {fullname}>", "exec", dont_inherit=True)


def unpack(archive: bytes, needed: Sequence[str]) -> None:
    """Make the package importable in this process, once; raise ConfigError if a package it needs is missing."""
    if "pyromq" in sys.modules or any(type(finder).__name__ == "Importer" for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Importer(archive))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise importlib.import_module("pyromq.errors").ConfigError(
            f"the cluster's Python ({sys.executable}) lacks {', '.join(missing)}, which cannot be shipped: "
            f"pip install {' '.join(missing)} on every node"
        )


def rebuild(archive: bytes, needed: Sequence[str], pickled: bytes) -> Any:
    """Rebuild a reader or writer on the machine it was sent to."""
    unpack(archive, needed)
    kind, state = cloudpickle.loads(pickled)
    real = kind.__new__(kind)
    real.__dict__.update(state)
    return real


def rebuild_function(archive: bytes, needed: Sequence[str], pickled: bytes) -> Any:
    """Rebuild a function on the machine it was sent to."""
    unpack(archive, needed)
    return cloudpickle.loads(pickled)


class ShippedFunction:
    """Calls a function; when pickled, it carries the package with it."""

    def __init__(self, archive: bytes, needed: Sequence[str], function: Callable[..., Any]) -> None:
        self._archive, self._needed, self._function = archive, needed, function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __reduce__(self) -> Any:
        pickled = cloudpickle.dumps(self._function)  # type: ignore[no-untyped-call]
        return rebuild_function, (self._archive, self._needed, pickled)


class ShippedSource(DataSource):
    """Delegates to the real data source, which it carries with it, as do the readers and writers it returns."""

    archive: ClassVar[bytes]
    needed: ClassVar[tuple[str, ...]]

    @classmethod
    def name(cls) -> str:
        return "pyromq"

    def schema(self) -> Any:
        return self._real().schema()

    def reader(self, schema: Any) -> Any:
        return self._carried(self._real().reader(schema))

    def streamReader(self, schema: Any) -> Any:
        return self._carried(self._real().streamReader(schema))

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._carried(self._real().writer(schema, overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return self._carried(self._real().streamWriter(schema, overwrite))

    def _real(self) -> Any:
        unpack(self.archive, self.needed)
        return importlib.import_module("pyromq.spark.source").PyroMQDataSource(self.options)

    def _carried(self, real: Any) -> Any:
        """Make the pickles of a reader or writer contain the package too."""
        kind, archive, needed = type(real), self.archive, self.needed

        def reduce(self: Any, protocol: object) -> Any:
            pickled = cloudpickle.dumps((kind, self.__dict__))  # type: ignore[no-untyped-call]
            return rebuild, (archive, needed, pickled)

        real.__class__ = type(kind.__name__, (kind,), {"__reduce_ex__": reduce})
        return real
