"""`pyromq up` as a person starts it."""

from __future__ import annotations

import json
import urllib.request

from tests.cli.conftest import Servers


def test_the_console_port_serves_healthz_and_varz(servers: Servers) -> None:
    with urllib.request.urlopen(f"{servers.console}/healthz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ok"}
    with urllib.request.urlopen(f"{servers.console}/varz", timeout=10) as answer:
        facts = json.load(answer)
    assert facts["namesrv"]["address"] == servers.namesrv
    assert facts["brokers"][0]["address"] == servers.broker
