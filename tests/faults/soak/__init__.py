"""Soak: a server at half of its greatest rate for an hour, with a fault or a rude client every half minute.

    python -m tests.faults.soak                  # an hour
    python -m tests.faults.soak --minutes 5

load      a process that sends and consumes numbered messages, and knows at the end which are missing
witness   a slow sender and two groups that write journals, for the history checker
troubles  what goes wrong
__main__  the campaign: memory and descriptors must be flat, nothing may be lost

Sends are retried, as applications do; what was acknowledged must arrive. The server is killed once, at a quarter of the
time. From then on its memory and descriptors are compared, the first third of that life with the last.
"""
