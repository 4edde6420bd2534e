"""`make bench-peers`: the same work on PyroMQ and on its peers, interleaved, in one run.

    python -m bench.peers brokers [OPTION…]     sends and pulls, beside other brokers
    python -m bench.peers spark [OPTION…]       batches and streams of Spark, beside Kafka
    python -m bench.peers growth [OPTION…]      what a message costs as topics, connections, backlog … grow
    python -m bench.peers cold [OPTION…]        a backlog read from the disk, and sends beside it
    python -m bench.peers page FILE             rewrite the tables of docs/performance.md from a result

Each says what it needs and what is missing; `--help` has its options.
"""

from __future__ import annotations

import sys


def main(words: list[str]) -> int:
    match words:
        case ["brokers", *rest]:
            from .brokers.comparison import main as brokers

            return brokers(rest)
        case ["growth", *rest]:
            from .growth.measure import main as growth

            return growth(rest)
        case ["cold", *rest]:
            from .cold import main as cold

            return cold(rest)
        case ["page", *rest]:
            from .brokers.page import main as page

            return page(rest)
        case ["spark", *rest]:
            from .spark.comparison import main as spark  # PySpark takes seconds to import

            return spark(rest)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
