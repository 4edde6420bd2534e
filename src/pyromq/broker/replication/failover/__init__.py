"""Failover: which broker of a name is master, decided through etcd.

    coordinator       asks etcd who leads, several times a second, and makes this broker what it should be
    etcd_state        what is kept in etcd, and which transactions change it; etcd_client asks
    lease             for how long this broker may believe what etcd said last
    election          who may be elected
    in_sync_set       who has to have a message before it is acknowledged; in_sync_replicas acts on it
    fence             refuses what a master may not take that cannot know whether it still is one
    by_election       what answers an operator who wants another master
    known_leader      whom a slave follows; member puts all of this together

Safety does not rest on clocks. A message is acknowledged when every member of the in-sync set has it. Only a member of
the set can be elected, and whoever is elected confirms nothing of an older epoch again. So a deposed master never gets
the confirmation of its successor, whether it knows of it or not.
"""
