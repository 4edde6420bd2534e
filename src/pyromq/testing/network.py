"""The network between the servers of a LocalCluster, which tests cut, and the loop on which those servers run.

An event loop is where every socket of a server is made: those of its ports, of the replication stream, and of its own
requests. `NetworkLoop` puts a gate between each socket and the protocol that uses it. A gate knows whose it is, from
the context of the task that made it, and whose the other end is, from the ports. While the two are cut off from each
other, what arrives waits in the gate: the connection stays open and is silent, as one through a dead router.

    cut      nothing passes between two sets of servers; a new connection hangs
    paused   a server hears nothing and says nothing; connections to it are made, as by the system for a stopped process
    dead     all connections of a server are reset, and it makes no new ones
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Hashable, Iterable
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, cast

from pyromq.remoting.loop import new_loop

_OWNER: Final[ContextVar[Hashable | None]] = ContextVar("_OWNER", default=None)
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close resets


def act_as(owner: Hashable) -> None:
    """Have what the running task, and all that it starts, opens from now on belong to a server."""
    _OWNER.set(owner)


class Network:
    """Which servers can hear each other; used on the loop's thread only."""

    def __init__(self) -> None:
        self.gates: set[Gate] = set()
        self._cuts: list[tuple[frozenset[Hashable], frozenset[Hashable]]] = []
        self._paused: set[Hashable] = set()
        self._dead: set[Hashable] = set()
        self._ports: dict[int, Hashable | None] = {}
        self._changed = asyncio.Event()

    # --- what tests do

    def cut(self, one: Iterable[Hashable], other: Iterable[Hashable]) -> None:
        """Let nothing pass between two sets of servers."""
        self._cuts.append((frozenset(one), frozenset(other)))

    def heal(self) -> None:
        """Undo all cuts; what waited arrives."""
        self._cuts.clear()
        self._tell()

    def pause(self, owner: Hashable) -> None:
        """Have a server hear and say nothing."""
        self._paused.add(owner)

    def resume(self, owner: Hashable) -> None:
        """Undo `pause`; what waited arrives, and leaves."""
        self._paused.discard(owner)
        self._tell()

    def kill(self, owner: Hashable) -> None:
        """Reset all connections of a server; it has no network from now on."""
        self._dead.add(owner)
        self._paused.discard(owner)
        for gate in self._gates_of(owner):
            gate.reset()
        self._tell()

    def reset_clients(self, owner: Hashable) -> None:
        """Reset the connections that a server has with clients now."""
        for gate in self._gates_of(owner):
            if self.owner_at(gate.peer_port) is None:
                gate.reset()

    def _gates_of(self, owner: Hashable) -> list[Gate]:
        return [gate for gate in self.gates if gate.owner == owner]

    def revive(self, owner: Hashable) -> None:
        """Give a killed server a network again, for its next start."""
        self._dead.discard(owner)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        for gate in tuple(self.gates):
            gate.flush()

    # --- what gates ask

    def is_paused(self, owner: Hashable | None) -> bool:
        return owner in self._paused

    def is_dead(self, owner: Hashable | None) -> bool:
        return owner in self._dead

    def is_cut(self, one: Hashable | None, other: Hashable | None) -> bool:
        """Return True if two servers cannot hear each other."""
        return any((one in a and other in b) or (one in b and other in a) for a, b in self._cuts)

    def owner_at(self, port: int) -> Hashable | None:
        """Return whose a port of this machine is; None of a client."""
        return self._ports.get(port)

    def note_port(self, port: int, owner: Hashable | None) -> None:
        """Remember whose a port is."""
        self._ports[port] = owner

    async def may_connect(self, owner: Hashable | None, port: int) -> None:
        """Wait until a server can reach a port; raise ConnectionRefusedError if it is dead."""
        while self.is_cut(owner, self.owner_at(port)) or self.is_paused(owner):
            await self._changed.wait()
        if self.is_dead(owner):
            raise ConnectionRefusedError(f"{owner} was killed")


class Gate(asyncio.Protocol):
    """Between one socket and the protocol that uses it."""

    def __init__(self, network: Network, inner: asyncio.Protocol, owner: Hashable | None, context: Context) -> None:
        self.owner = owner
        self._network = network
        self._inner = inner
        self._context = context  # so that what the protocol starts belongs to the same server
        self.peer_port = 0
        self._waiting: list[Callable[[], object]] = []
        self._transport: asyncio.Transport | None = None
        self._is_over = False

    # --- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._network.gates.add(self)
        self._network.note_port(_port(transport, "sockname"), self.owner)
        self.peer_port = _port(transport, "peername")
        self.transport = GatedTransport(self._transport, lambda: self._is_mute, self._end, self._set_inner)
        self._context.run(self._inner.connection_made, cast(asyncio.Transport, self.transport))

    def data_received(self, data: bytes) -> None:
        self._pass(lambda: self._inner.data_received(data))

    def eof_received(self) -> bool | None:
        if not (self._waiting or self._is_closed):
            return self._context.run(self._inner.eof_received)
        self._waiting.append(self._inner.eof_received)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self._network.is_dead(self.owner) or self.transport.is_closed_here:
            self._end(error)  # only the other end's closing has to travel
            return
        self._pass(lambda: self._end(error))
        self.transport.is_gone = bool(self._waiting)  # its owner takes it for open until it can hear again

    def _set_inner(self, protocol: asyncio.Protocol) -> None:
        self._inner = protocol

    def _end(self, error: Exception | None = None) -> None:
        self._network.gates.discard(self)
        self._waiting.clear()
        if not self._is_over:
            self._is_over = True
            self._context.copy().run(self._inner.connection_lost, error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # --- open and closed

    @property
    def _is_mute(self) -> bool:
        return self._network.is_paused(self.owner)

    @property
    def _is_closed(self) -> bool:
        network = self._network
        return self._is_mute or network.is_cut(self.owner, network.owner_at(self.peer_port))

    def _pass(self, call: Callable[[], object]) -> None:
        if self._network.is_dead(self.owner):
            return
        if self._waiting or self._is_closed:
            self._waiting.append(call)
        else:
            self._context.run(call)

    def flush(self) -> None:
        """Pass on what waited, and let leave what was written, if the gate is open."""
        while self._waiting and not self._is_closed:
            self._context.run(self._waiting.pop(0))
        if not self._is_mute and self._transport is not None:
            self.transport.flush()

    def reset(self) -> None:
        """End the connection as the system does for a process that was killed."""
        if self._transport is None or self._transport.is_closing():
            return
        found = self._transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()


class GatedTransport:
    """A transport whose owner may be mute, or not know yet that the other end has closed it."""

    def __init__(
        self,
        transport: asyncio.Transport,
        is_mute: Callable[[], bool],
        end: Callable[[], None],
        set_protocol: Callable[[asyncio.Protocol], None],
    ) -> None:
        self.is_closed_here = False
        """Whether its owner has closed it."""
        self.is_gone = False
        """Whether the other end has, and its owner does not know."""
        self._transport = transport
        self._is_mute = is_mute
        self._end = end
        self.set_protocol = set_protocol
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport says, but for the socket: nobody is to write past the gate."""
        return default if name == "socket" else self._transport.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_mute() or self._waiting:
            self._waiting.append(bytes(data))
        elif not self.is_gone:
            self._transport.write(data)

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        for part in parts:
            self.write(part)

    def is_closing(self) -> bool:
        return self.is_closed_here or (self._transport.is_closing() and not self.is_gone)

    def get_write_buffer_size(self) -> int:
        return 0 if self.is_gone else self._transport.get_write_buffer_size()

    def is_reading(self) -> bool:
        return not self.is_gone and self._transport.is_reading()

    def pause_reading(self) -> None:
        if not self.is_gone:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_gone:
            self._transport.resume_reading()

    def close(self) -> None:
        self._leave(self._transport.close)

    def abort(self) -> None:
        self._leave(self._transport.abort)

    def _leave(self, how: Callable[[], None]) -> None:
        self.is_closed_here = True
        if self.is_gone:
            asyncio.get_running_loop().call_soon(self._end)
        else:
            how()

    def flush(self) -> None:
        """Write what waited."""
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self.write(data)


def _port(transport: asyncio.BaseTransport, end: str) -> int:
    address = transport.get_extra_info(end)
    return int(address[1]) if address else 0


def network_loop(network: Network) -> asyncio.AbstractEventLoop:
    """Return an event loop whose sockets have gates."""
    base = new_loop()
    kind = type(base)
    base.close()

    class NetworkLoop(kind):  # type: ignore[misc, valid-type]
        """The loop of this machine, with gates."""

        async def create_server(self, protocol_factory: Callable[[], Any], *args: Any, **options: Any) -> Any:
            owner, context = _OWNER.get(), copy_context()
            made = await super().create_server(
                lambda: Gate(network, protocol_factory(), owner, context.copy()), *args, **options
            )
            for listening in made.sockets:
                network.note_port(listening.getsockname()[1], owner)
            return made

        async def create_connection(
            self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **options: Any
        ) -> Any:
            owner, context = _OWNER.get(), copy_context()
            await network.may_connect(owner, port)
            gates: list[Gate] = []

            def new_gate() -> Gate:
                gates.append(Gate(network, protocol_factory(), owner, context))
                return gates[0]

            await super().create_connection(new_gate, host, port, **options)
            return gates[0].transport, gates[0]._inner

        async def start_tls(self, transport: Any, *args: Any, **options: Any) -> Any:
            return await super().start_tls(getattr(transport, "_transport", transport), *args, **options)

    loop: asyncio.AbstractEventLoop = NetworkLoop()
    return loop
