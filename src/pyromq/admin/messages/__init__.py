"""Messages, as an operator looks for them.

`messages` is the theme. `find` returns a `MessageSearch` (`search`), which merges its sources by store time and stops
at its budget: `queue_scan` reads a queue backwards or forwards, `key_source` pages through the key index of a broker.
`lookup` finds one message by its id, `traces` tells what happened to it. `consumption` says which groups have consumed
it, and `direct_consumption` has one consumer handle it now.
"""
