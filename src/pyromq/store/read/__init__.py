"""Reading: which records an answer holds, and whether they are what the queue entries say.

    get → queue_reader → entries → [property_scan] → read_guard → bytes of the log

`plain_reader` answers most pulls, those about which nothing is special, and leaves the rest to the others.
`queue_reader` reads one queue, by offset or by time; `merged_reader` reads several at once, for large answers. Both
check what was not written since the store was opened: `read_guard` one record at a time with `record_match`,
`merged_reader` by columns with `record_columns`. `log_walk` goes through the log from record to record; recovery and
checks use it too. `disk/` keeps readers from waiting for the disk.

`reader` is the store of somebody else, live or not, read without its lock: `file_view` shows its log and queues, and
`index_view` its index. `readable` says what all of them answer; `MessageStore` and `StoreReader` do.
"""
