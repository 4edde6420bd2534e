"""Rescue: what one broker has lost or damaged, and the other's copy still has.

    known_slaves   which slaves have followed this broker, and where they are
    lost_tail      a master asks its slaves for what it lost, before it begins an epoch
    healing        damaged stretches of the log, fetched from a broker that has the same log

Whatever is fetched is checked as records are, before anything is written.
"""
