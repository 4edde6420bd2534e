"""The catalog of pipelines: their names, descriptions, modules and options."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, get_type_hints

import msgspec

from pyromq.errors import ConfigError
from pyromq.pipelines.common.spark_place import SparkPlace
from pyromq.pipelines.outcome import Outcome, Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = {
    "archive": "archive topics as Parquet by topic and day, each message exactly once",
    "replay": "send archived messages or dead letters to a topic, filtered, at a set rate",
    "widen": "move a backlog to a topic with more queues, keys in order, each message once",
    "find": "find messages of topics by time and condition, and write them as JSON lines",
    "report": "profile a topic or a whole store on one HTML page",
    "orders": "run the demo: decode, validate, deduplicate, aggregate and publish orders",
}


class Pipeline(Protocol):
    """What a pipeline's module has besides `build`."""

    Options: type[msgspec.Struct]

    def run(self, spark: SparkSession, options: Any, progress: Progress) -> Outcome:
        """Run the pipeline to its end and return the counts."""


class Field(NamedTuple):
    """One option of a pipeline."""

    name: str
    type: Any
    default: Any
    """`msgspec.NODEFAULT` for a required option."""
    help: str

    @property
    def flag(self) -> str:
        """The option on the command line: `--dead-letters`."""
        return "--" + self.name.replace("_", "-")


def load(name: str) -> Pipeline:
    """Return the module of a pipeline."""
    if name not in CATALOG:
        raise ConfigError(f"there is no pipeline {name!r}; there are {', '.join(CATALOG)}")
    module: Pipeline = importlib.import_module(f"pyromq.pipelines.{name}")
    return module


def check(pipeline: Pipeline, options: msgspec.Struct) -> None:
    """Call a pipeline's own check of its options, if it has one; raises what that raises."""
    getattr(pipeline, "check", lambda options: None)(options)


def look(pipeline: Pipeline, options: msgspec.Struct, place: SparkPlace) -> None:
    """Let a pipeline look for what its options name, before Spark takes its time to start; raises what that raises."""
    getattr(pipeline, "look", lambda options, place: None)(options, place)


def settings(pipeline: Pipeline) -> dict[str, str]:
    """Return the session settings that a pipeline needs; the user's take precedence."""
    found: dict[str, str] = getattr(pipeline, "SETTINGS", {})
    return found


def fields(options: type[msgspec.Struct]) -> list[Field]:
    """Return a pipeline's options; the docstring under a field is its help."""
    texts = {name: text for base in reversed(options.__mro__) for name, text in _helps(base)}
    types = get_type_hints(options)
    return [
        Field(field.name, types[field.name], field.default, texts.get(field.name, ""))
        for field in msgspec.structs.fields(options)
    ]


def _helps(owner: type) -> Iterator[tuple[str, str]]:
    if not issubclass(owner, msgspec.Struct) or owner is msgspec.Struct:
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, line in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match line:
                case ast.Expr(ast.Constant(str(text))):
                    yield field.target.id, " ".join(text.split())
