"""PushConsumer: calls a listener with every message.

    push_consumer.py     the public class          push_settings.py   its options, checked
    push_session.py      builds and connects the parts while the consumer is open
    workers.py           tasks that take messages from the queues in turn, `concurrency` jobs at a time
    consumption.py       one job: calls the listener, then acts on the outcome; concurrent or orderly
    direct_consumption.py  one message that an operator names, apart from all others
    send_back.py         returns a failed message to the broker, for a retry or as a dead letter
    termination.py       SIGTERM: `run` returns, and the consumer closes in order

A pull loop (consume/) adds messages to a ProcessQueue and offers the queue to Workers. A worker takes a job from it.
Consumption calls the listener and finishes the messages, sends them back, or puts them back into the queue. Every 5 s
the session commits the offset before which everything is finished.
"""
