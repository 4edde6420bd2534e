"""PyroMQ and Apache RocketMQ 4.9.7 with the same settings, as one broker, as a synchronous pair, or with accounts."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from interop.servers import HOST, Broker, NameServer, Server, free_port
from interop.toolkit import Toolkit

from pyromq.protocol.acl import Credentials

from ..load.generator import Load, Shape
from ..load.rocketmq import Backlog, Messages, pulls, ranges, sends, wait_for_slave
from . import ours
from .peer import TO_PULL, Peer, send_until
from .work import Setting

ACCOUNT = Credentials("bench-account", "the-bench's-long-secret")
_TOPIC, _PULLED, _GROUP = "bench", "bench-pulled", "bench-pull"
_GROUPS = ", ".join(f'"{name}=SUB"' for name in (_GROUP, *(f"{_GROUP}-{rank}" for rank in range(1, 64))))
_ACCOUNTS = f"""globalWhiteRemoteAddresses: []
accounts:
  - accessKey: {ACCOUNT.access_key}
    secretKey: "{ACCOUNT.secret_key}"
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [ "{_TOPIC}=PUB|SUB", "{_PULLED}=PUB|SUB" ]
    groupPerms: [ {_GROUPS} ]
"""
APACHE_JVM = (
    "-server", "-Xms1g", "-Xmx1g", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0", "-XX:+AlwaysPreTouch",
    "-XX:TieredStopAtLevel=4",
)  # fmt: skip
"""The collector and the options of Apache's runbroker.sh, with the heap of a small machine instead of 8 GiB."""
StartBroker = Callable[[Path, Mapping[str, str], int], Server]


class RocketMq(Peer):
    """One broker, or a master and its slave; requests go to the master."""

    def __init__(self, servers: list[Server], port: int, setting: Setting, about: dict[str, str], java: bool) -> None:
        super().__init__(servers, about)
        self.is_java = java
        self._address = HOST, port
        self._account = ACCOUNT if setting is Setting.ACL else None
        if setting is Setting.PAIR:
            wait_for_slave(self._address, _TOPIC)

    def sends(self, shape: Shape, size: int) -> AbstractContextManager[Load]:
        return sends(self._address, shape, Messages([_TOPIC], size, account=self._account))

    def pulls(self, shape: Shape, *, once: bool = False) -> AbstractContextManager[Load]:
        """Return a load of pulls; with `once` its rings have the whole backlog, shared out among the slots."""
        there = ranges(self._address, _PULLED, account=self._account)
        return pulls(self._address, shape, Backlog(_PULLED, there, group=_GROUP, once=once, account=self._account))

    def filling(self, shape: Shape, size: int) -> AbstractContextManager[Load]:
        """Return a load of sends to the topic that is pulled."""
        return sends(self._address, shape, Messages([_PULLED], size, account=self._account))

    def fill(self) -> None:
        with self.filling(Shape(8, 32), 1024) as load:
            send_until(self, load, TO_PULL)


def start_ours(
    setting: Setting, directory: Path, stack: ExitStack, environment: Mapping[str, str] | None = None
) -> RocketMq:
    """Start PyroMQ's broker."""
    namesrv = stack.enter_context(ours.NameServer(directory / "namesrv"))

    def broker(home: Path, settings: Mapping[str, str], port: int) -> Server:
        return ours.OurBroker(home, namesrv.address, settings, environment, port=port)

    servers, port = _start(setting, directory, stack, broker)
    about = {"version": ours.version(environment), "environment": str(dict(environment or {}))}
    return RocketMq(servers, port, setting, about | _settings(directory), java=False)


def start_apache(toolkit: Toolkit, setting: Setting, directory: Path, stack: ExitStack) -> RocketMq:
    """Start Apache's broker."""
    namesrv = stack.enter_context(NameServer("apache", toolkit, directory / "namesrv"))

    def broker(home: Path, settings: Mapping[str, str], port: int) -> Server:
        own = toolkit._replace(home=home / "home")
        shutil.copytree(toolkit.home, own.home, dirs_exist_ok=True)
        if (home / "conf").exists():
            shutil.copytree(home / "conf", own.home / "conf", dirs_exist_ok=True)
        given = {**ours.SETTINGS, **settings}
        return Broker("apache", own, home, namesrv.address, given, port, options=APACHE_JVM, own_session=True)

    servers, port = _start(setting, directory, stack, broker)
    about = {"version": "4.9.7", "java": " ".join(APACHE_JVM)}
    return RocketMq(servers, port, setting, about | _settings(directory), java=True)


def _start(setting: Setting, directory: Path, stack: ExitStack, broker: StartBroker) -> tuple[list[Server], int]:
    """Start what a setting needs; return the servers, the master first, and its port."""
    common = {"flushDiskType": "SYNC_FLUSH" if setting is Setting.SYNC else "ASYNC_FLUSH", "brokerName": "bench-broker"}
    common["aclEnable"] = str(setting is Setting.ACL).lower()
    roles = ("SYNC_MASTER", "SLAVE") if setting is Setting.PAIR else ("ASYNC_MASTER",)
    servers, ports = [], []
    for broker_id, role in enumerate(roles):
        port = free_port()
        home = directory / role
        (home / "conf").mkdir(parents=True)
        if setting is Setting.ACL:
            accounts = home / "conf" / "plain_acl.yml"
            accounts.write_text(_ACCOUNTS)
            accounts.chmod(0o600)
        own = {"brokerId": str(broker_id), "brokerRole": role, "haListenPort": str(port + 1), "brokerIP2": HOST}
        servers.append(stack.enter_context(broker(home, {**common, **own}, port)))
        ports.append(port)
    return servers, ports[0]


def _settings(directory: Path) -> dict[str, str]:
    """Return what the brokers were configured with, without paths of this machine."""
    lines = next(directory.glob("*MASTER/broker.conf")).read_text().splitlines()
    return {"settings": " ".join(line for line in lines if str(directory) not in line)}
