"""Failover: which broker of a name is master, decided through etcd. It is not wired into the broker yet.

    etcd_state    what is kept in etcd, and which transactions change it
    election      who may be elected
    in_sync_set   who has to have a message before it is acknowledged

Safety does not rest on clocks. A message is acknowledged when every member of the in-sync set has it. Only a member of
the set can be elected, and whoever is elected confirms nothing of an older epoch again. So a deposed master never gets
the confirmation of its successor, whether it knows of it or not.
"""
