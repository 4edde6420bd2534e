"""The same without async: send a batch, read it by polling, commit by hand.

Start a broker with `pyromq up`, then: python examples/blocking.py [NAMESRV]
"""

from __future__ import annotations

import os
import sys

from pyromq import Message
from pyromq.blocking import LitePullConsumer, Producer


def main(namesrv: str) -> None:
    with Producer(group="example-batch", namesrv=namesrv) as producer:
        messages = [Message(topic="example-readings", body=b"reading %d" % number) for number in range(100)]
        results = producer.send_batch(messages)
        print("stored", len(results), "readings, all with", *{result.status for result in results})

    consumer = LitePullConsumer(
        group="example-report",
        namesrv=namesrv,
        subscriptions={"example-readings": "*"},
        start_from="earliest",
        auto_commit=False,
    )
    with consumer:
        received = 0
        while received < 100:
            received += len(consumer.poll(timeout=1.0))
            consumer.commit()
        print("received", received, "readings")


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    main(sys.argv[1] if len(sys.argv) > 1 else default)
