"""Reading without waiting for the disk.

`residency` knows which parts of the log are in memory, so that a map of them can be read. `disk_access` lets readers
raise NotInMemory instead of waiting, and has the missing bytes fetched by a thread. `read_ahead` says how much more to
fetch for whoever reads on.
"""
