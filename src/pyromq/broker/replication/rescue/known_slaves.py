"""KnownSlaves: which slaves of ours have followed this broker, and where they answer requests.

    {"1": "10.0.0.2:10911"}      pyromq.slaves, beside the log: by the slave's id

A master notes a slave before that confirms anything. After a crash it knows whom to ask for what it may have lost.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.errors import PyroMQError
from pyromq.protocol.bodies import ClusterInfo, decode
from pyromq.protocol.codes import MASTER_ID, LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.remoting.client import RemotingClient
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed

logger = logging.getLogger(__name__)

SLAVES_NAME: Final = "pyromq.slaves"


class KnownSlaves:
    """Addresses by broker id; a slave that moves, or gets a new disk, keeps its id."""

    def __init__(self, root: Path, files: OsFiles | None = None) -> None:
        self.addresses: dict[int, str] = {}
        self._files = files or OsFiles()
        self._path = str(root / SLAVES_NAME)

    def load(self) -> None:
        """Read the file; without one, or with a damaged one, no slave is known. Raises OSError."""
        self.addresses = read_sealed(self._files, self._path, dict[int, str]) or {}

    def note(self, broker_id: int, address: str) -> None:
        """Remember a slave, durably on return; a full disk is survived."""
        if not address or self.addresses.get(broker_id) == address:
            return
        self.addresses[broker_id] = address
        try:
            replace_sealed(self._files, self._path, self.addresses)
        except OSError as error:
            logger.error("cannot remember a slave address=%s: %s", address, error)


async def registered_slaves(config: BrokerConfig, remoting: RemotingClient) -> dict[int, str]:
    """Return the slaves of a broker that the first name server to answer knows, by id; none if no one answers."""
    for server in config.namesrv:
        try:
            command = request(RequestCode.GET_BROKER_CLUSTER_INFO, language=LanguageCode.JAVA)
            answer = await remoting.request(server, command)
        except PyroMQError:
            continue
        if answer.code == ResponseCode.SUCCESS:
            broker = decode(ClusterInfo, answer.body).broker_addr_table.get(config.name)
            known = broker.broker_addrs if broker is not None else {}
            return {int(broker_id): address for broker_id, address in known.items() if int(broker_id) != MASTER_ID}
    return {}
