"""Options for JVMs that run only for seconds."""

from __future__ import annotations

from pyromq.spark.launch.java import archive_options

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Without the slow compiler they start in two thirds of the time."""


def short_lived_spark() -> str:
    """Return the options for a JVM that runs Spark, with the class archive if there is one."""
    return f"{SHORT_LIVED} {archive_options()}".strip()
