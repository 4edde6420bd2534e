"""What is wrong with a broker: name servers that are away, slaves that are missing, and failover."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyromq.broker.server import Broker
from pyromq.broker.stats.health import CAUSES, _of_failover
from pyromq.namesrv.server import NameServer
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import StartBroker

NOBODY = "127.0.0.1:1"


def causes(broker: Broker) -> list[str]:
    return [problem.cause for problem in broker.health.problems()]


async def test_a_broker_whose_name_servers_are_away_says_so_and_goes_on(
    start_broker: StartBroker, clock: TestClock
) -> None:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as name_server:
        broker = await start_broker(namesrvAddr=f"{name_server.address};{NOBODY}")
        (problem,) = broker.health.problems()
        assert (problem.cause, problem.text) == ("name_servers_away", f"not registered at {NOBODY}")
        assert broker.health.refusal() is None
    await eventually(lambda: "not registered at any name server" in broker.health.problem())
    assert broker.health.refusal() is None, "clients know their routes"


async def test_a_sync_master_without_a_slave_and_a_slave_without_its_master_say_so(
    start_broker: StartBroker, clock: TestClock, tmp_path: Path
) -> None:
    master = await start_broker(brokerRole="SYNC_MASTER")
    assert causes(master) == ["no_slave_in_sync"]
    slave = await start_broker(
        brokerRole="SLAVE", brokerId=1, haMasterAddress=NOBODY, storePathRootDir=tmp_path / "slave"
    )
    await eventually(lambda: causes(slave) == ["follows_nobody"])
    assert slave.health.refusal() is None


async def test_a_broker_that_is_well_has_a_figure_for_each_cause(broker: Broker) -> None:
    counts = broker.http_info()["problem"]
    assert counts == dict.fromkeys(CAUSES, 0)


def coordinator(**state: Any) -> Any:
    values = {"is_away": False, "problem": "", "replicas": None} | state
    return SimpleNamespace(**values)


def test_failover_has_three_states_of_trouble() -> None:
    assert list(_of_failover(coordinator())) == []
    (away,) = _of_failover(coordinator(is_away=True))
    assert (away.cause, away.stops_messages) == ("etcd_away", False)
    (nobody,) = _of_failover(coordinator(problem="the log is older"))
    assert (nobody.cause, nobody.stops_messages) == ("no_leader", True)
    assert "the log is older" in nobody.text
    (fenced,) = _of_failover(coordinator(replicas=SimpleNamespace(is_fenced=True)))
    assert (fenced.cause, fenced.stops_messages) == ("fenced", True)
