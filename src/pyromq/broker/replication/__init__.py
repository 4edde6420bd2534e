"""Replication: a slave's log is a byte-for-byte copy of its master's, and what decides what consumers get goes with it.

    epochs          whose messages a log holds; where two logs part
    introductions   the notes by which our own brokers meet on the replication stream, and the secret
    ha_server       the master: accepts slaves at the replication port
    slave_link      one slave's connection there: sends the log, takes reports, believes only what can be true
    agreement       what a slave does before it follows; master_calls is what it asks
    replicas        what the slaves have: which sends are confirmed
    follower        the slave: finds its master, cuts to the common history, appends what it is sent
    tables/         what decides what a consumer gets: the master's tables, for slaves that ask
    foreign_slaves  whether the log of a slave that introduces itself not is the same as ours
    history         what a store says of itself at the start: its epochs, its slaves, its last_run
    last_run        how the store was left, and whether its machine can have lost something since
    rescue/         what one side has lost, or finds damaged, it gets from the other's copy
    handover/       another master, because an operator says so
    failover/       who is master, decided through etcd

A slave connects, both settle on the common end of their logs, the slave reports its end, and the master sends from
there. Each report confirms what the slave has written, or flushed where it runs with SYNC_FLUSH.
"""
