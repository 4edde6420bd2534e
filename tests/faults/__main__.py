"""The parts of `make torture`: long runs that break things at random and compare what is left with what was promised.

    make torture                     # all of them, hours
    make torture SHORT=1             # a short form of each, minutes
    make torture PART=kill_loop      # one of them

or, the same, `python -m tests.faults [PART]… [--short]`. Every part prints its figures and ends with 1 if something is
wrong; the others run nevertheless. The native lane runs where it is built, unless `PYROMQ_LANE=plain` is set.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from typing import NamedTuple

from pyromq.lane import lane_text


class Part(NamedTuple):
    """One row: a module of this folder with its options, and the options of its short form."""

    name: str
    shows: str
    long: str
    short: str

    def command(self, *, short: bool) -> list[str]:
        """Return its command line."""
        module, *options = shlex.split(self.short if short else self.long)
        return [sys.executable, "-m", f"tests.faults.{module}", *options]


PARTS = [
    Part(
        "crash_images", "whatever a crash leaves of a store, recovery keeps what was acknowledged",
        "crash_images --images 20000", "crash_images --images 3000",
    ),
    Part(
        "bit_flips", "a flipped bit harms at most the message that it lies in",
        "bit_flips --flips 5000", "bit_flips --flips 500",
    ),
    Part(
        "power_cut", "a power cut loses nothing acknowledged after SYNC_FLUSH; needs root",
        "power_cut --cuts 50", "power_cut --cuts 2",
    ),
    Part(
        "power_cut_lying", "the same campaign sees the losses of a broker without fsync",
        "power_cut --cuts 5 --lying", "power_cut --cuts 4 --lying",
    ),
    Part(
        "kill_loop", "kill -9 loses nothing acknowledged, in either flush mode",
        "kill_loop --kills 100", "kill_loop --kills 6",
    ),
    Part(
        "delay_images", "whatever a crash leaves, each delayed message is delivered once",
        "delay_images --images 1000", "delay_images --images 100",
    ),
    Part(
        "transfer", "transactions agree with their local ones although producers and broker are killed",
        "transfer --transfers 10000", "transfer --transfers 100",
    ),
    Part(
        "once", "outbox, broker and idempotent handler write each row once although all are killed",
        "once --orders 10000 --kills 60", "once --orders 1000 --kills 5",
    ),
    Part(
        "once_postgresql", "the same on PostgreSQL, from Debian's package",
        "once --orders 10000 --kills 60 --database postgresql", "once --orders 1000 --kills 5 --database postgresql",
    ),
    Part(
        "once_mariadb", "the same on MariaDB, from Debian's package",
        "once --orders 10000 --kills 60 --database mariadb", "once --orders 1000 --kills 5 --database mariadb",
    ),
    Part(
        "group_chaos", "members that stop lose and repeat nothing; killed ones repeat what they had in hand",
        "group_chaos", "group_chaos --messages 12000 --changes 4 --rate 4000",
    ),
    Part(
        "chaos", "nothing is lost, invented or out of order while everything goes wrong at once",
        "chaos --minutes 60", "chaos --rounds 2 --seconds 8",
    ),
    Part(
        "failover", "masters are killed, paused and without power, and nothing acknowledged is lost; needs etcd",
        "failover --rounds 100", "failover --rounds 5",
    ),
    Part(
        "failover_without_etcd", "while etcd is away and all brokers are well, no send fails; needs etcd",
        "failover --rounds 0 --etcd-away 300", "failover --rounds 0 --etcd-away 20",
    ),
    Part(
        "failover_partitions", "masters are cut off from etcd and slaves, and nothing is lost; needs root and etcd",
        "failover --partitions --rounds 40", "failover --partitions --rounds 5",
    ),
    Part(
        "failover_planted", "the same campaign finds the faults of brokers that have some; needs etcd",
        "failover --planted", "failover --planted",
    ),
    Part(
        "failover_model", "whatever brokers, etcd and machines do, no order of it breaks a promise",
        "failover_model --steps 1000000", "failover_model --steps 100000",
    ),
    Part(
        "frame_fuzz", "no frame of a stranger holds a server's loop for more than 50 ms",
        "frame_fuzz --minutes 60", "frame_fuzz --minutes 1",
    ),
    Part(
        "fuzz", "whatever bytes a decoder gets, it returns or raises its own error, soon and with little memory",
        "fuzz --minutes 60 --record", "fuzz --minutes 1",
    ),
    Part(
        "conversations", "whatever sequence of requests servers are asked, they answer each and go on",
        "fuzz.conversations --minutes 60 --record", "fuzz.conversations --minutes 1",
    ),
    Part(
        "lane_fuzz", "whatever frame the native lane gets, it stays within its memory and agrees with the plain one",
        "lane_fuzz --minutes 60", "lane_fuzz --minutes 0.5",
    ),
    Part(
        "hostile", "beside rude clients a good one is served as if they were not there",
        "hostile --seconds 10", "hostile --seconds 3 --noisy half_sent_frames never_reads idle_flood speaks_tls",
    ),
    Part(
        "soak", "half of the greatest rate with a trouble every half minute: nothing lost, memory flat",
        "soak --minutes 60", "soak --minutes 2",
    ),
    Part(
        "archive", "an archived and replayed topic is the same although drivers are killed",
        "pipelines archive --messages 1000000 --kills 3", "pipelines archive --messages 5000 --size 100 --kills 1",
    ),
    Part(
        "archive_executors", "the same with executors killed",
        "pipelines archive --messages 300000 --kills 0 --executor-kills 3",
        "pipelines archive --messages 5000 --size 100 --kills 0 --executor-kills 1",
    ),
    Part(
        "widen", "a widened topic keeps every key in order although drivers and workers are killed",
        "pipelines widen --messages 1000000 --kills 2 --worker-kills 2",
        "pipelines widen --messages 5000 --size 100 --kills 1",
    ),
    Part(
        "widen_executors", "the same with executors killed",
        "pipelines widen --messages 300000 --kills 0 --executor-kills 3",
        "pipelines widen --messages 5000 --size 100 --kills 0 --executor-kills 1",
    ),
    Part(
        "spark_clusters", "every way to a Spark cluster works, shipped or installed",
        "spark_clusters", "spark_clusters --ways 0",
    ),
    Part(
        "spark_kills", "a stream whose drivers and executors are killed loses nothing",
        "spark_kills --kills 20", "spark_kills --kills 1",
    ),
    Part(
        "spark_stream", "a long stream has every message once through restarts, a kill and a new queue",
        "spark_stream --minutes 30", "spark_stream --minutes 0",
    ),
]  # fmt: skip


def main() -> int:
    options = _options()
    chosen = [part for part in PARTS if part.name in options.part] or PARTS
    print(f"torture: {len(chosen)} parts with the {lane_text()} lane", flush=True)
    failed = [part.name for part in chosen if not _run(part, short=options.short)]
    print(f"torture: {len(chosen) - len(failed)} of {len(chosen)} parts are good", *failed and ["FAILED:", *failed])
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make torture",
        description="Long runs that break things at random.",
        epilog="parts:\n" + "\n".join(f"  {part.name:<18} {part.shows}" for part in PARTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", metavar="PART", help="only these parts")
    parser.add_argument("--short", action="store_true", help="a short form of each")
    options = parser.parse_args()
    if unknown := set(options.part) - {part.name for part in PARTS}:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; {parser.epilog}")
    return options


def _run(part: Part, *, short: bool) -> bool:
    """Run one part; return True if all was good."""
    command = part.command(short=short)
    print(f"--- {part.name}: {part.shows}\n    {shlex.join(['python', *command[1:]])}", flush=True)
    began = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    print(
        f"--- {part.name}: {'good' if code == 0 else f'FAILED ({code})'}, {time.monotonic() - began:.0f} s", flush=True
    )
    return code == 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
