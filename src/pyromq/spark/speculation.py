"""Refuses Spark's speculative execution, where a slow task gets a second attempt beside the first: both would send."""

from __future__ import annotations

from pyromq.errors import ConfigError

SETTING = "spark.speculation"


def refuse_speculation(value: object) -> None:
    """Raise ConfigError if this value of the setting switches speculation on; None is its default."""
    if str(value).strip().lower() == "true":
        raise ConfigError(f"{SETTING}=true runs tasks twice, and a sink would send twice: switch it off")
