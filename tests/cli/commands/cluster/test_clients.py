"""`pyromq cluster clients`."""

from __future__ import annotations

import json

from pyromq import Message, blocking
from pyromq.testing import LocalCluster
from tests.cli.commands.cluster.conftest import Run


def test_clients_are_listed_while_they_are_connected(command: Run, pair: LocalCluster) -> None:
    assert command("clients").stdout == "no client is connected\n"
    with blocking.Producer("shop", pair.namesrv) as producer:
        for _ in range(8):
            producer.send(Message(topic="orders", body=b"x"))
        (line,) = command("clients", "--group", "shop", "--json").stdout.splitlines()
        found = json.loads(line)
        assert (found["client_id"], found["producer_groups"]) == (producer.client_id, ["shop"])
        assert (found["consumer_groups"], found["brokers"]) == ([], ["broker-a", "broker-b"])
        (row,) = [line for line in command("clients").stdout.splitlines() if producer.client_id in line]
        assert "│ broker-a, broker-b │" in row
        assert command("clients", "--group", "none").stdout == "no client is connected as none\n"
    assert command("clients", "--json").stdout == ""
