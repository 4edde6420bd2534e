"""From files to an open store, and the two changes to a log that no put() makes: raw bytes and a cut.

    directory: lock → formats → load → recovery → open store → flusher, cleaner
    recovery:  walk the log → log_replay → queues and index; end the log → quarantine; queue_recovery → queue ends

`directory` holds the parts of a store and opens them. `recovery` finds where the log ends and what in it is damaged.
`log_replay` gives records the queue entries that are missing. `queue_recovery` lets each queue end where the log says.
`formats` refuses files of a later release. `file_sizes` finds out which size existing files were made with.
What is cut off goes to `quarantine` first.

The same code serves an open store: `raw_log` appends the bytes of another store's log, as a slave does, and `log_cut`
lets the store end earlier, as a slave does when its master's log is shorter. `log_healing` mends damage with the bytes
of a copy.
"""
