"""Brokers and name servers with TLS: clients, administrators, slaves, and rules of access control."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from pyromq import Message, Tls, blocking
from pyromq.admin.blocking_client import AdminClient
from pyromq.errors import PyroMQError
from pyromq.protocol.ha import encode_report, encode_transfer
from pyromq.testing import LocalCluster, wait_until
from tests.certificates import Authority


class Secure:
    """What a cluster with TLS needs."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        cert, key = self.authority.sign("server", "127.0.0.1")
        self.settings = {
            "tls.server.certPath": str(cert),
            "tls.server.keyPath": str(key),
            "tls.server.mode": "enforcing",
        }
        self.client = Tls(ca_file=str(self.authority.file))


@pytest.fixture
def secure(tmp_path: Path) -> Secure:
    return Secure(tmp_path)


def test_every_kind_of_client_speaks_tls_with_every_server(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster(settings=secure.settings) as cluster:
        with blocking.Producer("shop", cluster.namesrv, tls=secure.client, clock=cluster.clock) as shop:
            shop.send(Message(topic="orders", body=b"one"))
        got: list[bytes] = []
        with blocking.PushConsumer(
            "billing",
            cluster.namesrv,
            {"orders": "*"},
            lambda message: got.append(message.body),
            start_from="earliest",
            tls=secure.client,
            clock=cluster.clock,
        ):
            wait_until(lambda: got == [b"one"])
        with blocking.LitePullConsumer(
            "audit", cluster.namesrv, {"orders": "*"}, start_from="earliest", tls=secure.client, clock=cluster.clock
        ) as consumer:
            wait_until(lambda: [message.body for message in consumer.poll()] == [b"one"])
        with AdminClient(cluster.namesrv, tls=secure.client, clock=cluster.clock) as admin:
            assert "orders" in admin.topics.names()
        with pytest.raises(PyroMQError), AdminClient(cluster.namesrv, tls=False, clock=cluster.clock) as admin:
            admin.topics.names()
        monkeypatch.setenv("PYROMQ_TLS_CA_FILE", str(secure.authority.file))
        with AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
            assert "orders" in admin.topics.names()


def test_slaves_follow_over_tls(secure: Secure) -> None:
    with LocalCluster(slaves=1, settings=secure.settings) as cluster:
        with blocking.Producer("shop", cluster.namesrv, tls=secure.client, clock=cluster.clock) as shop:
            shop.send(Message(topic="orders", body=random.Random(7).randbytes(200_000)))
        master, slave = cluster.brokers[0].server, cluster.slaves[0].server
        assert master is not None
        assert slave is not None
        wait_until(lambda: slave.store.max_physical_offset == master.store.max_physical_offset > 200_000)


ACCOUNTS = """
accounts:
  - accessKey: cluster-admin
    secretKey: a-long-secret-of-the-admin
    admin: true
"""


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    file = tmp_path / "data" / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True)
    file.write_text(ACCOUNTS)
    file.chmod(0o600)
    return tmp_path / "data"


def first_bytes(cluster: LocalCluster, tls: Tls) -> bytes:
    """Return what the port for slaves sends to one that introduces itself not, as Apache's."""
    with (
        socket.create_connection(("127.0.0.1", cluster.brokers[0].port + 1), 10) as plain,
        tls.context().wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(encode_report(0))
        return connection.recv(100)


def test_with_access_control_a_certificate_replaces_ha_secret(secure: Secure, accounts: Path) -> None:
    cert, key = secure.authority.sign("slave")
    settings = secure.settings | {
        "aclEnable": "true",
        "tls.server.trustCertPath": str(secure.authority.file),
        "tls.server.need.client.auth": "optional",
    }
    with LocalCluster(data=accounts, settings=settings) as cluster:
        shown = Tls(ca_file=str(secure.authority.file), cert_file=str(cert), key_file=str(key))
        assert first_bytes(cluster, shown) == encode_transfer(0)
        assert first_bytes(cluster, secure.client) == b""


def test_a_client_that_trusts_nobody_here_is_told_so(secure: Secure) -> None:
    with (
        LocalCluster(settings=secure.settings) as cluster,
        pytest.raises(PyroMQError, match="certificate is not accepted"),
        AdminClient(cluster.namesrv, tls=True, clock=cluster.clock) as admin,
    ):
        admin.topics.names()
