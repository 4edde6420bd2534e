"""Who is connected: producers and consumers by group, the queues they have locked, and what they subscribe to.

    client_registry   groups, members and their connections; locks of orderly consumers
    client_requests   heartbeats, sign-offs, member lists and locks
    agreement         notes members of one group that subscribe to different things

A heartbeat makes or keeps a member; a closed connection, a sign-off or two minutes of silence end it. Either way the
other members are told, and rebalance.
"""
