"""Show how far a consumer group is and what blocks it, as `pyromq group describe` does.

Start a broker with `pyromq up`, then: python examples/groups.py [NAMESRV]
"""

from __future__ import annotations

import os
import sys

from pyromq import Message
from pyromq.blocking import AdminClient, LitePullConsumer, Producer

GROUP, TOPIC, COUNT = "example-watched", "example-parcels", 20


def show(admin: AdminClient) -> None:
    group = admin.groups.describe(GROUP, watch=0)
    print(f"{group.lag} messages wait, the oldest for {group.behind:.1f} s; {len(group.members)} member(s)")
    for queue in group.queues:
        print(f"  {queue} committed {queue.committed_offset} of {queue.end_offset}, owned by {', '.join(queue.owners)}")
    for finding in group.findings:
        print(f"  ! {finding}")


def main(namesrv: str) -> None:
    with Producer(group="example-packers", namesrv=namesrv) as producer:
        producer.send_batch([Message(topic=TOPIC, body=b"parcel %d" % number) for number in range(COUNT)])

    subscriptions = {TOPIC: "*"}
    with (
        AdminClient(namesrv) as admin,
        LitePullConsumer(GROUP, namesrv, subscriptions, start_from="earliest", auto_commit=False) as consumer,
    ):
        show(admin)
        received = 0
        while received < COUNT:
            received += len(consumer.poll(timeout=1.0))
        consumer.commit()
        show(admin)
    print("received", received, "parcels")


if __name__ == "__main__":
    default = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    main(sys.argv[1] if len(sys.argv) > 1 else default)
