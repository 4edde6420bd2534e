"""Reading the files of a store without a broker.

    store_queues    StoreQueues: topics, queues and offsets, for planning on the driver
    store_plan      ranges become tasks, in the order of the log if most of it is wanted
    store_files     queue entries as columns, log files mapped into memory
    record_matcher  which records match their queue entries
    range_reader    read_store: the ranges of a task -> Arrow batches, filtered; damage is skipped and reported

A task loads the entries of its ranges, sorts them by position in the log, maps one log file after another, matches the
records with their entries, and decodes those that pass the filter.
"""
