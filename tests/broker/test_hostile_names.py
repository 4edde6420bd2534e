"""Names from requests become paths only if they are legal: nothing is written outside the store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import inspect

from pyromq.broker.requests import REQUESTS
from pyromq.broker.server import Broker
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.remoting.requests import Cost, RequestRow
from tests.broker.conftest import Connect
from tests.broker.helpers import heartbeat

NAMES = [
    "../../outside", "/outside", "..", ".", "a/b", "a\\..\\b", "%RETRY%../../outside", "%DLQ%/outside", "a\x00b", "C:x",
]  # fmt: skip


def fields(row: RequestRow, name: str) -> dict[str, str]:
    """Return ext fields of a request that has the name wherever a name may be."""
    if row.header is None:
        return {}
    info = inspect.type_info(row.header)
    assert isinstance(info, inspect.StructType)
    return {each.encode_name: _value(each.name, each.type, name) for each in info.fields}


def _value(field: str, kind: inspect.Type, name: str) -> str:
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]
    if isinstance(kind, inspect.StrType):
        return {"default_topic": "TBW102", "properties": "", "subscription": "*"}.get(field, name)
    return "false" if isinstance(kind, inspect.BoolType) else "0"


def outside(directory: Path) -> set[Path]:
    """Return what lies beside the store, and where the names would lead to."""
    led = (directory.parent / "outside", Path("/outside"))
    beside = (path for path in directory.rglob("*") if "store" not in path.parts)
    return {*beside, *(path for path in led if path.exists())}


def strange(store: Path) -> set[str]:
    """Return the files of a store that have an illegal name, or a part of one."""
    return {
        path.name for path in store.rglob("*") if "outside" in path.name or path.name in ("a", "b", "a\\..\\b", "C:x")
    }


@pytest.mark.parametrize("name", NAMES)
async def test_no_request_makes_a_path_of_an_illegal_name(
    name: str, broker: Broker, connect: Connect, tmp_path: Path
) -> None:
    peer = await connect(broker)
    await peer.send()
    before = outside(tmp_path)
    for row in REQUESTS:
        if row.handler is None or row.code in (RequestCode.PROMOTE_BROKER, RequestCode.STEP_DOWN):
            continue
        body = heartbeat(name, name, {name: "*"}) if row.cost is Cost.LIGHT else b"x"
        with suppress(PyroMQError):  # a refusal, or a connection that was closed
            await peer.remoting.request(peer.address, request(row.code, fields(row, name), body), 60.0)
    assert not strange(tmp_path / "store")
    assert outside(tmp_path) == before
    await peer.send()
