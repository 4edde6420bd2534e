"""The dashboard and the alert rules: they name metrics that exist, and say what to do."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from prometheus_client import REGISTRY

from tests.console.monitoring.conftest import Site
from tests.console.monitoring.metric_table import tables
from tests.console.monitoring.monitoring_files import (
    DASHBOARDS,
    RULES,
    dashboard_queries,
    metrics_of,
    rule_queries,
    rules,
)


async def test_every_metric_of_the_dashboard_and_the_rules_exists(site: Site) -> None:
    found = tables(site.broker, site.name_server)
    known = {row.name for row in (*found.process, *found.broker, *found.series, *found.name_server)}
    known |= {sample.name for family in REGISTRY.collect() for sample in family.samples}
    queries = [*dashboard_queries(), *rule_queries()]
    assert len(queries) > 30
    unknown = {title: metrics_of(query) - known for title, query in queries if not metrics_of(query) <= known}
    assert unknown == {}


def test_a_dashboard_has_titles_and_places_of_their_own() -> None:
    for path in DASHBOARDS:
        panels = json.loads(path.read_text())["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
        assert len(set(places)) == len(places)
        assert all(panel["title"] for panel in panels)


def test_an_alert_has_a_severity_and_a_summary() -> None:
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}
    assert all(rule["annotations"]["summary"] for rule in rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
