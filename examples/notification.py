"""Notify a customer: the sender waits until the broker has the message, because nobody would notice a lost one.

Without async, as in a plain web framework or a script. Start a broker with `pyromq up`, then:
python examples/notification.py [NAMESRV]
"""

from __future__ import annotations

import os
import sys
import threading

from pyromq import MessageExt, SendStatus
from pyromq.blocking import Producer, PushConsumer
from pyromq.errors import PyroMQError

TOPIC = "example-notifications"
notified = threading.Semaphore(0)


def notify(producer: Producer, customer: str, text: str) -> bool:
    """Send a notification; return whether it is stored, so that the caller can tell or try again."""
    try:
        sent = producer.send(TOPIC, {"to": customer, "text": text}, tags="sms", keys=customer)
    except PyroMQError as error:  # after the producer's own retries
        print("not sent:", error)
        return False
    return sent.status is SendStatus.SEND_OK


def deliver(message: MessageExt) -> None:
    """Hand a notification to the phone company; if this raises, it is tried again later."""
    print("received", message.body.decode())
    notified.release()


def main(namesrv: str) -> None:
    with (
        Producer("example-notifiers", namesrv, send_timeout=10) as producer,
        PushConsumer("example-sms", namesrv, {TOPIC: "sms"}, deliver, start_from="earliest"),
    ):
        for customer in ("Ada", "Grace"):
            assert notify(producer, customer, "your parcel is on its way")
        for _ in range(2):
            notified.acquire(timeout=30)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
