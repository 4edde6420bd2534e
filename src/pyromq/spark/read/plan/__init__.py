"""Planning a read, on the driver: which offsets of which queues, and which task reads them.

    queue_source    QueueSource: what planning asks about topics and offsets; brokers and stores implement it
    positions       the positions in the options become offsets; messages that are gone are reported
    missing_queues  queues that a stream has read and that its topics no longer have
    pushdown        filters that Spark pushes down narrow the ranges
    partitions      ranges become tasks: large ones split, small ones joined

`positions.bounds` yields the ranges of a batch read; a stream takes them from Spark's checkpoint. Both go to
`partitions.plan`, or to `files.store_plan` for a store.
"""
