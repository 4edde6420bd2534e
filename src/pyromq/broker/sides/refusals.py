"""Why a broker does not answer: what it is, or is about to be."""

from __future__ import annotations

from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection


def refuse_as_slave(request: RemotingCommand, connection: Connection) -> None:
    """Refuse what writes: it is not master."""
    raise ServiceNotAvailable("this broker is a slave and takes no messages: ask its master")


def refuse_before_agreement(request: RemotingCommand, connection: Connection) -> None:
    """Refuse what reads: it may have messages that the new master has not."""
    raise ServiceNotAvailable("this broker was master and has not met the new one yet: ask that one")


def refuse_while_stopping(request: RemotingCommand, connection: Connection) -> None:
    """Refuse what writes: it is about to stop."""
    raise ServiceNotAvailable("this broker is stopping")
