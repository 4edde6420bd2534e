"""Bodies of messages as people see them. Pure functions: bytes and rules in, values for a template out.

    rendering     render(): the body of a message as tree, text and hex, or why it is not shown
    inflation     gzip, zlib, lz4 and zstd, never beyond a limit
    decoders      guess the format: JSON, JSON lines, MessagePack, Avro (avro), text
    schemas       Protobuf descriptors and Avro schemas that operators uploaded, by topic (schema_store keeps them)
    tree, hexdump, visible_text     how values, bytes and odd characters look
    masking       fields that nobody sees, by topic

Bodies come from strangers. Nothing here returns HTML, and sizes, depths and counts are bounded: the console shares its
process with a broker.

A masked topic shows what is left of a decoded body, and nothing else: no hex, no raw text. A body that cannot be taken
apart is withheld as a whole. Searches look at the same masked body (`BodyRules.seen`), so that they cannot be used to
guess what is hidden.
"""
