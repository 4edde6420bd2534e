"""LitePullConsumer: the caller polls for messages, or iterates over them.

    lite_pull_consumer.py   the public class          poll_settings.py   its options
    poll_session.py         builds and connects the parts while the consumer is open
    ready_messages.py       hands out messages to the caller, from all queues in turn
    poll_queue.py           the messages of one queue that were pulled and not handed out yet

A pull loop (consume/) adds messages to a PollQueue and notes the queue in ReadyMessages; `poll` takes them from there.
When the caller polls again, what it got before counts as consumed, and auto-commit commits it.
"""
