"""How settings are written and read, for every server.

`properties_file` reads the syntax of broker.conf and namesrv.conf. `values` reads the text of one value: a number, a
path, a list of addresses. `key_table` holds all keys of a server and finds what is wrong with given ones. The tables
themselves are in `broker/config/keys.py` and `namesrv/keys.py`; `netty_keys` has what both files may hold.
"""
