"""A message, from the value that a program sends to the record in the commit log.

    message       Message goes out, MessageExt comes in, MessageQueue says where it is
    properties    names of properties, and the text in which they travel
    record        the stored record: one layout in the log, in answers to pulls, in whatever carries a whole message
    batch         the body of a batch send: several messages without what they share
    compression   zlib, lz4 and zstd bodies
    message_id    the ids of a message       hosts   addresses as records and ids hold them

A producer encodes properties and perhaps compresses the body; the broker makes a Record of it; `record_parts` gives the
bytes to store. A consumer reads them with `decode_messages`, which leaves the costly parts until they are asked for.
"""
