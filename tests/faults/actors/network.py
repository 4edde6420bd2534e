"""Networks that can be cut: each broker has a network namespace of its own, on a bridge to clients and to etcd.

    198.18.0.254   clients and the name server        198.18.0.253   etcd        198.18.0.1 …   brokers

All of it is in a namespace that `enter` makes for this process, so nothing else on the machine is touched. A cut is a
blackhole route: what one side sends to an address is dropped, and nobody is told. Needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSIDE = "PYROMQ_LAB"
CLIENTS, ETCD = "198.18.0.254", "198.18.0.253"
_BRIDGE = "pyromq0"


def unavailable() -> str:
    """Return why networks cannot be cut here; empty if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [name for name in ("ip", "unshare") if shutil.which(name) is None]:
        return f"network namespaces need {missing[0]}"
    tried = subprocess.run(["unshare", "-n", "ip", "link", "add", _BRIDGE, "type", "bridge"], capture_output=True)
    return "" if tried.returncode == 0 else f"no network namespaces here: {tried.stderr.decode().strip()}"


def enter(module: str, arguments: Sequence[str]) -> None:
    """Run a module anew in a network namespace of its own; return if this is that run."""
    if os.environ.get(INSIDE):
        return
    command = ["unshare", "-n", sys.executable, "-m", module, *arguments]
    os.execvpe("unshare", command, {**os.environ, INSIDE: str(os.getpid())})


class Lab:
    """The network of one set of brokers, from `open` to `close`."""

    def __init__(self) -> None:
        self._places: list[str] = []

    def open(self) -> None:
        """Make the bridge; the process is in a namespace of its own."""
        assert os.environ.get(INSIDE), "enter() comes first"
        _ip("link set lo up")
        _ip(f"link add {_BRIDGE} type bridge")
        for address in (CLIENTS, ETCD):
            _ip(f"addr add {address}/24 dev {_BRIDGE}")
        _ip(f"link set {_BRIDGE} up")

    def close(self) -> None:
        """Remove all namespaces and the bridge."""
        for place in self._places:
            subprocess.run(["ip", "netns", "del", place], capture_output=True)
        self._places.clear()
        subprocess.run(["ip", "link", "del", _BRIDGE], capture_output=True)

    def add(self, number: int) -> tuple[list[str], str]:
        """Make the place of a broker; return what its command begins with, and its address."""
        place, link = f"pyromq-{os.environ[INSIDE]}-{number}", f"pq{number}"
        address = f"198.18.0.{number}"
        subprocess.run(["ip", "netns", "del", place], capture_output=True)
        _ip(f"netns add {place}")
        self._places.append(place)
        _ip(f"link add {link} type veth peer name eth0 netns {place}")
        _ip(f"link set {link} master {_BRIDGE} up")
        _ip(f"-n {place} link set lo up")
        _ip(f"-n {place} addr add {address}/24 dev eth0")
        _ip(f"-n {place} link set eth0 up")
        return ["ip", "netns", "exec", place], address

    def cut(self, number: int, address: str) -> None:
        """Drop what a broker sends to an address."""
        _ip(f"-n {self._places[number - 1]} route replace blackhole {address}/32")

    def heal(self) -> None:
        """Let everything through again."""
        for place in self._places:
            subprocess.run(["ip", "-n", place, "route", "flush", "type", "blackhole"], capture_output=True)


def _ip(words: str) -> None:
    done = subprocess.run(["ip", *words.split()], capture_output=True)
    if done.returncode:
        raise RuntimeError(f"ip {words}: {done.stderr.decode().strip()}")
