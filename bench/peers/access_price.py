"""What access control costs: the same sends to a broker without it and to one with it, in turn.

    python -m bench.peers.access_price [--shapes '64x1, 8x32'] [--rounds 7] [--seconds 1.5]

Every request to the guarded broker is signed. The generator is that of `make bench-peers`, with requests that were
signed before, so the figures are the broker's. The first round is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from .brokers.rocketmq import start_ours
from .brokers.work import Setting
from .load.generator import Figures, Pace, Shape, run

_OPEN, _GUARDED = Setting.ASYNC, Setting.ACL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="64x1, 8x32", help="%(default)s")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyromq-price-") as directory, ExitStack() as stack:
        brokers = {one: start_ours(one, Path(directory) / one.name, stack) for one in (_OPEN, _GUARDED)}
        for shape in map(Shape.of, options.shapes.replace(" ", "").split(",")):
            found: dict[Setting, list[Figures]] = {one: [] for one in brokers}
            for number in range(options.rounds + 1):
                for one in brokers if number % 2 else reversed(brokers):
                    with brokers[one].sends(shape, options.size) as load:
                        figures = run(load, Pace(options.seconds, 0.4), brokers[one].pids)
                    if number:
                        found[one].append(figures)
            rate, cpu = (
                {one: statistics.median(float(getattr(figures, what)) for figures in found[one]) for one in brokers}
                for what in ("rate", "cpu")
            )
            print(
                f"{shape}: {rate[_GUARDED]:,.0f} of {rate[_OPEN]:,.0f} messages a second"
                f" = {rate[_GUARDED] / rate[_OPEN]:.0%}; CPU {cpu[_GUARDED]:.1f} and {cpu[_OPEN]:.1f} s a million",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
