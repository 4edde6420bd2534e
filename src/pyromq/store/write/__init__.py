"""Writing: the group that is open, and the groups that are written and not visible yet.

    put → appender → (commit_log, flush) → visibility → queue_tails → consume_queue, index/

`appender` gives a message its place and collects it in the open group. Once that is written, `visibility` keeps it
until it is durable and, where only confirmed messages are shown, confirmed. Then it is visible: `queue_tails` has its
entries in memory for a moment, before the queues' files do. `new_queues` makes the files of queues ahead of their
first message. `no_space` remembers a full disk, and `write_times` how long writes took. `quick_flush` decides whether
the loop waits for the disk.
"""
