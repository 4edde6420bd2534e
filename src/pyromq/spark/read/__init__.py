"""Reads: the readers that Spark calls, for batches and streams, through brokers or from a store's files.

    batch_reader   stream_reader   store_readers   the classes Spark calls: offsets and partitions, then rows
    plan/                                          from options to ranges of queues, and from ranges to tasks
    brokers/                                       reading a task's ranges by pulls
    files/                                         reading a task's ranges from the files of a store
    decode/                                        stored records -> Arrow columns

The driver calls a reader, which asks a `QueueSource` (brokers or a store) for offsets and plans partitions. Spark
pickles reader and partitions into the tasks. There `read` yields Arrow batches; nothing is remembered between calls.
"""
