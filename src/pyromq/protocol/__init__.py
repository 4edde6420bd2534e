"""Bytes to values and back: everything that RocketMQ 4.9 puts on the wire or into its log.

    messages/   a message and its stored record; properties, ids, hosts, batches, compression
    headers/    what a request asks: one Struct per request code, and the two forms of a command's header
    bodies/     JSON bodies, one Struct each, in the dialect of JSON that Java peers speak
    sql92/      SQL filter expressions                 tag_filter   tag expressions and their hash
    command     a request or an answer as one frame    frame_templates   the hot frames, written faster
    codes, names, delay_levels, rights   the constants, each written once
    acl   signatures   ha   the replication stream   trace_records   records of message traces   release   which this is

A request passes from a header and a body into a RemotingCommand, then into a frame; FrameDecoder and `decode` take the
same way back. Nothing here knows sockets, files or clocks, so every way of splitting or damaging bytes can be tested.
"""
