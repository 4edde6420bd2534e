"""The etcd of the tests serves, and comes back with what it knew."""

from __future__ import annotations

import base64
import json
import urllib.request

import pytest

from tests.etcd_server import EtcdCluster, etcd_unavailable

pytestmark = pytest.mark.skipif(bool(etcd_unavailable()), reason=etcd_unavailable())


def ask(endpoint: str, path: str, **body: str) -> dict[str, object]:
    coded = {name: base64.b64encode(value.encode()).decode() for name, value in body.items()}
    asked = urllib.request.Request(f"http://{endpoint}/v3/kv/{path}", data=json.dumps(coded).encode(), method="POST")
    with urllib.request.urlopen(asked, timeout=20) as answer:
        return dict(json.load(answer))


def test_a_member_keeps_its_address_and_its_data() -> None:
    with EtcdCluster() as etcd:
        assert etcd.url == f"etcd://{etcd.endpoints[0]}"
        ask(etcd.endpoints[0], "put", key="a", value="1")
        etcd.kill(0)
        assert not etcd.members[0].serves()
        etcd.start(0)
        assert ask(etcd.endpoints[0], "range", key="a")["count"] == "1"


def test_three_members_go_on_without_their_leader() -> None:
    with EtcdCluster(members=3) as etcd:
        first = etcd.leader()
        etcd.kill(first)
        second = etcd.leader()
        assert second != first
        ask(etcd.endpoints[second], "put", key="a", value="1")
        etcd.start(first)
        assert ask(etcd.endpoints[first], "range", key="a")["count"] == "1"


def test_a_paused_member_answers_when_it_goes_on() -> None:
    with EtcdCluster() as etcd:
        etcd.pause(0)
        assert not etcd.members[0].serves()
        etcd.resume(0)
        assert ask(etcd.endpoints[0], "range", key="a")["header"]
