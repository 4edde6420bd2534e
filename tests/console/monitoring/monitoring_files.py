"""The queries of deploy/grafana and deploy/prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent.parent
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"

_VARIABLES = {"$__rate_interval": "1m", "$cluster": ".*", "$broker": ".*", "$group": ".*"}
_COMPARISON = re.compile(r"\s+(?:>|<|==)\s+[\d.]+\s*$")
_METRIC = re.compile(r"\b(?:pyromq|rocketmq|process|python)_\w+")


def dashboard_queries() -> Iterator[tuple[str, str]]:
    """Yield the title and the query of every panel, with values in the place of variables."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                query = target["expr"]
                for name, value in _VARIABLES.items():
                    query = query.replace(name, value)
                yield panel["title"], query


def rules() -> list[dict[str, Any]]:
    """Return all alert rules."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def rule_queries() -> Iterator[tuple[str, str]]:
    """Yield the name of every alert, and what it compares with its limit."""
    for rule in rules():
        measured, limits = _COMPARISON.subn("", rule["expr"])
        assert limits == 1, f"{rule['alert']} must end with a comparison"
        yield rule["alert"], measured


def metrics_of(query: str) -> set[str]:
    """Return the metrics that a query names."""
    return set(_METRIC.findall(query))
