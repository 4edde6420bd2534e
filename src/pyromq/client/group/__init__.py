"""A consumer's place in its group: which queues it has, and how queues change hands.

    membership.py      joins and leaves the group; rebalances every 20 s and whenever the group or a route changes
    rebalance.py       asks a broker for the members and computes this member's share of each topic's queues
    allocation.py      the strategies by which queues are shared out; a strategy is a function
    ownership.py       takes a queue over from its last owner, and hands it over to the next one
    local_members.py   warns of consumers of one group in this process that subscribe differently
    queue_locks.py     the locks, kept by brokers, that ownership relies on

Membership wakes Rebalance; Rebalance passes this member's queues of a topic to the consumer's session; the session's
Assignment (consume/) starts a pull loop for each new queue. A push consumer's loop first takes ownership of its queue.
"""
