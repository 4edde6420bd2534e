from __future__ import annotations

import asyncio
import importlib
import sys

import pytest
import uvloop

from pyromq.remoting import loop


async def on_uvloop() -> bool:
    return isinstance(asyncio.get_running_loop(), uvloop.Loop)


def test_run_uses_uvloop_and_returns_the_result() -> None:
    assert loop.run(on_uvloop()) is True


def test_run_falls_back_to_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "uvloop", None)
        importlib.reload(loop)
        assert loop.run(on_uvloop()) is False
    importlib.reload(loop)
