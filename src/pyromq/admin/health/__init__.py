"""How a cluster and this machine are doing: the base of `pyromq top`, `check`, `doctor` and `debug bundle`.

`overview` asks every broker once for the activity of all its topics and groups; `top` shows it. `checks` compares it
with limits, for monitoring systems. `doctor` walks from the name server to a stored test message, and `machine` looks
at this machine: disk, file system, open files. `admin/support` collects all of it into an archive.
"""
