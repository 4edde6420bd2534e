"""Settings over the wire: few can be changed, none that could do harm; and what a data directory keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError, StoreError, StoreLocked
from pyromq.namesrv.config import NameServerConfig, namesrv_config
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.namesrv.server import NameServer
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.testing import TestClock
from tests.settings.apache_keys import NAMESRV_CONF

from .conftest import Peer

DANGEROUS = ["kvConfigPath", "configStorePath", "configStorePathName", "rocketmqHome", "listenPort", "bindAddress"]


async def settings(peer: Peer) -> dict[str, str]:
    answer = await peer.ask(RequestCode.GET_NAMESRV_CONFIG)
    return dict(line.split("=", 1) for line in answer.body.decode().splitlines())


def server_in(directory: Path, clock: TestClock, config: NameServerConfig | None = None) -> NameServer:
    return NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=directory, config=config or NameServerConfig())


async def test_settings_are_shown_with_the_real_port(peer: Peer, server: NameServer) -> None:
    shown = await settings(peer)
    assert shown["listenPort"] == str(server.port)
    assert shown["orderMessageEnable"] == "false"


async def test_an_allowed_setting_is_changed(peer: Peer) -> None:
    await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"# by hand\n orderMessageEnable = TRUE \n\n")
    assert (await settings(peer))["orderMessageEnable"] == "true"


@pytest.mark.parametrize("key", [*DANGEROUS, "clusterTest", "serverWorkerThreads", "noSuchKey", ""])
async def test_anything_else_is_refused_and_nothing_changes(peer: Peer, key: str) -> None:
    before = await settings(peer)
    body = f"orderMessageEnable=true\n{key}=/tmp/x\n".encode()
    answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body, expect=ResponseCode.NO_PERMISSION)
    assert answer.remark is not None
    assert key in answer.remark
    assert await settings(peer) == before


async def test_every_setting_that_is_shown_is_either_changeable_or_refused(tmp_path: Path, clock: TestClock) -> None:
    async with server_in(tmp_path, clock) as server:
        peer = Peer(server.address, clock)
        shown = await settings(peer)
        assert {"kvConfigPath", "configStorePath", "listenPort"} <= shown.keys()  # as they are spelt here
        for key in shown.keys() - {"orderMessageEnable"}:
            body = f"{key}=1\n".encode()
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body, expect=ResponseCode.NO_PERMISSION)
        assert await settings(peer) == shown
        await peer.remoting.close()


@pytest.mark.parametrize("body", [b"orderMessageEnable=perhaps\n", b"orderMessageEnable\n", b"\xff\xfe=1\n"])
async def test_a_wrong_value_is_an_error(peer: Peer, body: bytes) -> None:
    await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body, expect=ResponseCode.SYSTEM_ERROR)
    assert (await settings(peer))["orderMessageEnable"] == "false"


async def test_no_body_changes_nothing(peer: Peer) -> None:
    await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG)


async def test_a_data_directory_keeps_settings_and_values(tmp_path: Path, clock: TestClock) -> None:
    directory = tmp_path / "namesrv"
    async with server_in(directory, clock) as server:
        peer = Peer(server.address, clock)
        await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
        await peer.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
        await peer.remoting.close()
    async with server_in(directory, clock) as server:
        peer = Peer(server.address, clock)
        assert (await settings(peer))["orderMessageEnable"] == "true"
        kept = await peer.ask(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": "k"})
        assert kept.ext_fields == {"value": "v"}
        await peer.remoting.close()


async def test_two_servers_never_open_one_directory(tmp_path: Path, clock: TestClock) -> None:
    async with server_in(tmp_path, clock):
        with pytest.raises(StoreLocked):
            await server_in(tmp_path, clock).__aenter__()
    async with server_in(tmp_path, clock):
        pass


async def test_a_start_that_fails_gives_the_directory_back(tmp_path: Path, clock: TestClock) -> None:
    (tmp_path / "namesrv.properties").write_text("listenPort=1\n")
    with pytest.raises(ConfigError, match=r"namesrv\.properties.*listenPort"):
        await server_in(tmp_path, clock).__aenter__()
    (tmp_path / "namesrv.properties").unlink()
    async with server_in(tmp_path, clock):
        pass


async def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path, clock: TestClock) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot create .*file"):
        await server_in(tmp_path / "file", clock).__aenter__()


def test_every_key_of_apaches_namesrv_conf_is_known() -> None:
    assert sorted(set(NAMESRV_CONF) - NAMESRV_TABLE.known) == []


def test_keys_set_their_fields() -> None:
    config = namesrv_config(
        {
            "listenPort": "9877",
            "serverChannelMaxIdleTimeSeconds": "60",
            "orderMessageEnable": "TRUE",
            "kvConfigPath": "/data/kv.json",
            "serverWorkerThreads": "8",
        }
    )
    assert (config.port, config.idle_timeout, config.order_message_enable) == (9877, 60, True)
    assert (config.kv_path, config.without_effect) == (Path("/data/kv.json"), ("serverWorkerThreads",))
    with pytest.raises(ConfigError, match=r"listenPort must be between .*; unknown configuration key brokerName"):
        namesrv_config({"listenPort": "-1", "brokerName": "x"})


async def test_the_kv_settings_are_kept_where_the_file_says(tmp_path: Path, clock: TestClock) -> None:
    config = NameServerConfig(kv_path=tmp_path / "kv" / "values.json")
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None, config=config) as server:
        peer = Peer(server.address, clock)
        await peer.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "n", "key": "k", "value": "v"})
        assert (await settings(peer))["kvConfigPath"] == str(config.kv_path)
        await peer.remoting.close()
    assert b'"v"' in (tmp_path / "kv" / "values.json").read_bytes()


async def test_a_change_made_earlier_wins_over_the_given_setting_and_is_told(
    tmp_path: Path, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "namesrv.properties").write_text("orderMessageEnable=false\n")
    async with server_in(tmp_path, clock, NameServerConfig(order_message_enable=True)) as server:
        peer = Peer(server.address, clock)
        assert (await settings(peer))["orderMessageEnable"] == "false"
        await peer.remoting.close()
    assert "setting changed earlier key=orderMessageEnable value=false instead of=true" in caplog.text
