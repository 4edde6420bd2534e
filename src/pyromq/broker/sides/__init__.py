"""The sides of a broker, each built over its Parts (broker/parts.py). Which of them a broker has is its role.

    ports       the two listening sockets, bound before anything is built, and the handlers that answer there
    read_side   pulls, offsets, clients, administration: every broker has it
    write_side  sends, delays, transactions: a promotion makes it, a demotion closes it
    service     a broker at work: ports, parts, the reading side and the registration
    refusals    why a broker does not answer
    read_only   a directory that belongs to somebody else, served by a read side alone

A request that writes, at a broker without a writing side, is refused by its row in requests.py. The broker itself
(server.py) opens the store and the tables, and lets the sides come and go.
"""
