"""Runs Apache's Java client at a steady rate on our broker, which is restarted and killed meanwhile.

`python -m interop.soak --minutes 10 --rate 2000`: after a third of the time the broker is stopped and started again,
after two thirds it is killed. Nothing may be lost, and only what the producer sent again may come twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from interop.network import leave_the_network
from interop.peer import Peer
from interop.servers import Broker, NameServer, free_port
from interop.toolkit import Missing, Toolkit, prepare

_TOPIC = "soak"


def soak(toolkit: Toolkit, directory: Path, seconds: float, rate: int) -> tuple[dict[str, int], float]:
    """Run the soak; return the counts of the Java side and how many seconds it sent."""
    port = free_port()
    began = time.monotonic()
    with NameServer("pyromq", toolkit, directory / "namesrv") as namesrv, Peer(toolkit, directory / "java") as java:
        for turn in range(3):
            with Broker("pyromq", toolkit, directory, namesrv.address, port=port) as broker:
                if turn == 0:
                    java.call("Sends.sync", namesrv=namesrv.address, topic="warm-up", count=1)
                    java.call("Soak.start", namesrv=namesrv.address, topic=_TOPIC, rate=rate)
                    began = time.monotonic()
                _watch(java, seconds / 3)
                if turn == 1:
                    broker.kill()
                elif turn == 2:
                    sending = time.monotonic() - began
                    figures: dict[str, int] = java.call("Soak.finish", milliseconds=120_000)
    return figures, sending


def _watch(java: Peer, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 10.0))
        print(f"{time.strftime('%H:%M:%S')} {java.call('Soak.progress')}", flush=True)


def main() -> int:
    """Run the soak and print the result; return 0 if nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=2000)
    arguments = parser.parse_args()
    try:
        toolkit = prepare()
    except Missing as reason:
        print(f"skipped: {reason}")
        return 0
    leave_the_network()
    with tempfile.TemporaryDirectory(prefix="pyromq-soak-") as directory:
        figures, seconds = soak(toolkit, Path(directory), arguments.minutes * 60, arguments.rate)
    lost = figures["sent"] - figures["received"]
    print(f"{figures}, {figures['sent'] / seconds:.0f} a second for {seconds:.0f} s")
    print(f"{lost} lost, {figures['unexplained_repeats']} repeats of what was not in flight")
    return 1 if lost or figures["unexplained_repeats"] else 0


if __name__ == "__main__":
    sys.exit(main())
