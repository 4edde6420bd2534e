"""The small files of a store's directory, each replaced as a whole.

    lock              one server for one directory
    checkpoint        RocketMQ's checkpoint and our exact position: how far log and queues are flushed
    queue_ends        how many entries each queue has flushed
    fences            ranges of the log that are known to be damaged
    sealed_file       the frames of all of these: a value, the number of its format, a checksum
    json_file         the format of tables such as `topics.json`: RocketMQ's JSON, a checksum, a backup
    table_journal     what changed in a large table since it was written: topics, groups, committed offsets
    table_formats     how those three are read, changed by a record of their journal, and printed
    table_file        such a table on disk, with its journal

`flush` writes checkpoint and queue ends, in this order of trust: queue ends, position, checkpoint. `recovery/` reads
all of them before it changes a file. Brokers and name servers keep their tables in `JsonFile` or `TableFile`.
"""
