"""Delayed messages: they wait in a system topic and are stored once more, in their own topic, when they are due.

There are two kinds, as in RocketMQ, with a room each:

    levels/   messages with a delay level (1 to 18): each level has a queue, and waits equally long for all messages
    timer/    messages with any delay or time, up to 40 days ahead

Both use deliveries.py, which makes the record of the delivery and puts it into the open group of the store. A send gets
here by messages/deferred_messages.py, before it is stored. Progress is saved only when the deliveries that it counts
are durable: a power cut can repeat a delivery but never lose a message.
"""
