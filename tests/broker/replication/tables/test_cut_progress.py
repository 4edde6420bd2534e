"""What is known only from a part of the log that is cut off counts no more."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyromq import Message
from pyromq.blocking import Producer
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.replication.tables.cut_progress import CutProgress
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.testing import wait_until
from tests.broker.replication.tables.conftest import Pair
from tests.broker.replication.test_replication import same_logs, server
from tests.store.helpers import message, small_store

HALVES = "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"
OPS = "RMQ_SYS_TRANS_OP_HALF_TOPIC@CID_RMQ_SYS_TRANS"


async def test_transactions_that_ended_in_what_is_cut_off_are_open_again(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        tables = Tables(BrokerConfig(store=store.config), lambda: 0)
        tables.load()
        tables.offsets.adopt({HALVES: {0: 5}, OPS: {0: 2}}, ())
        ends = []
        for half in (b"1", b"3", b"4"):
            store.put(message("RMQ_SYS_TRANS_OP_HALF_TOPIC", half))
            store.commit()
            ends.append(store.max_physical_offset)
        progress = CutProgress(tables, store)
        await progress.set_back(ends[-1])
        assert tables.offsets.rows([HALVES, OPS]) == {HALVES: {0: 5}, OPS: {0: 2}}
        await progress.set_back(ends[0])
        assert tables.offsets.rows([HALVES, OPS]) == {HALVES: {0: 3}, OPS: {0: 0}}
        await progress.forget()
        assert tables.offsets.rows([HALVES, OPS]) == {HALVES: {0: 0}, OPS: {0: 0}}
        assert tables.delays.saved == DelayProgress({})
        await tables.close()


def test_a_message_whose_delivery_was_cut_off_is_delivered_by_whoever_is_master(
    brokers: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyromq.broker.replication")
    cluster, old, new = brokers.cluster, brokers.master, brokers.slave
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        producer.send(Message("later", b"x"), level=1)
    wait_until(lambda: same_logs(cluster))
    cluster.stop_broker(new)
    cluster.clock.advance(seconds=3)
    wait_until(lambda: server(old).http_info()["delayed_messages_delivered"] == 1)
    cluster.stop_broker(old)  # it alone has the delivery, and has saved that it was made
    cluster.start_broker(new)
    cluster.promote(new)
    cluster.clock.advance(seconds=3)
    wait_until(lambda: server(new).http_info()["delayed_messages_delivered"] == 1)
    old.is_slave = True
    cluster.start_broker(old)
    wait_until(lambda: "delay progress set back before={1: 1} now={1: 0}" in caplog.text)
    wait_until(lambda: server(old).service.parts.tables.delays.saved.offsets == {1: 1})
