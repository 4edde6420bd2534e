"""Messages in RocketMQ's files: no network, no consumers, no permissions. `MessageStore` is the way in.

    put → write/ → commit_log → flush → dispatch → consume_queue, index/ → arrivals → get → read/

A message passes through the modules of this folder. `write/` gives it a place in the log and in its queue, and
collects it in a `WriteGroup` (`dispatch`). `commit_log` writes the group into its files (`segments`), and `flush` makes
them durable. Then the group's entries go to the consume queues (`queue_table` keeps them by topic) and to the index,
and the message is visible. The newest entries are in memory, and in the queues' files within a second. Every call to
the operating system goes through `files`, which tests replace.

The rooms: `write/` has the groups on their way. `read/` finds messages, in an open store or in the files of somebody
else's. `index/` finds them by key and by due time. `recovery/` opens a directory, copies another store's log and cuts
an open one. `retention/` removes what has expired. `small_files/` are the files that say how far the large ones can be
trusted. `check/` verifies, repairs and describes a directory.
"""
