"""Tools for tests: a whole cluster in the test process, a clock that the test moves, waiting for a condition.

>>> from pyromq import Message, blocking
>>> from pyromq.testing import LocalCluster
>>> with LocalCluster() as cluster, blocking.Producer(group="shop", namesrv=cluster.namesrv) as producer:
...     producer.send(Message(topic="orders", body=b"..."))
...     cluster.clock.advance(hours=2)

`cluster` starts a real name server and real brokers on free ports. They and the clients that share its `clock` run in
real time until the test advances it. `broker_life`, `network` and `lost_answers` are what it breaks on purpose.
`remote` is a cluster that runs elsewhere in its place, and `expectations` what both have: waiting for messages. `app`
runs an App without a network. `waiting` has `eventually`, which waits for a condition in real time.

The names are resolved on first use, because pytest loads this package in every run where it is installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.testing.app import TestApp as TestApp
    from pyromq.testing.clock import TestClock as TestClock
    from pyromq.testing.cluster import LocalBroker as LocalBroker
    from pyromq.testing.cluster import LocalCluster as LocalCluster
    from pyromq.testing.expectations import TestCluster as TestCluster
    from pyromq.testing.remote import RemoteCluster as RemoteCluster
    from pyromq.testing.waiting import eventually as eventually
    from pyromq.testing.waiting import wait_until as wait_until

_HOMES = {
    "LocalBroker": "cluster",
    "LocalCluster": "cluster",
    "RemoteCluster": "remote",
    "TestApp": "app",
    "TestClock": "clock",
    "TestCluster": "expectations",
    "eventually": "waiting",
    "wait_until": "waiting",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pyromq.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.testing.{_HOMES[name]}"), name)
    return value
