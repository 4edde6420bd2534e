"""Looking at a directory without opening the store: verify, repair, copy and describe it.

    verify → file_check, log_check → queue_check, index_check → table_check → findings → repair

`verify` walks the log once (`log_check`) and shows every record to `queue_check` and `index_check`, which compare it
with the entries; `index_file_check` compares an index file with itself. `file_check` looks at names and lengths,
`table_check` at the small files. All of them yield `findings` and change nothing. `repair` plans steps from the
findings and prepares the directory; a start of the store then rebuilds queues and index. `inspect` counts.
`backup` copies a directory that may be in use.
"""
