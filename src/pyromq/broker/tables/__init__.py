"""The tables in the store's `config` directory: topics, groups, committed offsets, registered filters, delay levels.

    all_tables            opens, saves and closes them together; adds what a crash took from them
    topic_table           topics.json            subscription_groups   subscriptionGroup.json
    consumer_offsets      consumerOffset.json    consumer_filters      consumerFilter.json (with bloom filters)
    delay_offsets         delayOffset.json       queue_locks           who consumes a queue in order, in memory
    reset_ids             pyromq.resets, beside the log: when offsets went back, so that no slave undoes it
    table_followers       which slaves have which changes; changed_keys says what changed since a mark
    table_saver           makes changes of the first three durable by their journals, and rewrites them now and then
    save_progress         which changes are durable, and who waits for them
    table_parts           the first three as answers: whole, or in parts that fit into frames
    saver                 writes a small table in a thread, the newest state only

A table is changed on the loop and read anywhere on it. The files have RocketMQ's format.
"""
