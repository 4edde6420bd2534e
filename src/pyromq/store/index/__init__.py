"""Finding messages without reading the log: by key, and by the time at which they are due.

    WriteGroup.keys → message_index → key_batch (hashes) → file_list → index_writer → index file
    key → key_hash → key_query → index file → offsets in the log

`message_index` collects keys and puts them into the newest file in batches. `file_list` holds the files, oldest first;
`index_directory` finds and makes them; `index_file` draws their layout. `index_checkpoint` notes how far the index is
flushed, and `index_recovery` decides by that what is good after a restart. `key_batch` and `index_writer` import numpy,
so they are imported when the first keys are written. Where the native lane is built (`lane/keys.py`), it hashes keys
and links entries for them.

`pending_table` holds the delayed messages that wait for a time of their own; the broker's timer uses it.
"""
