"""Who may be elected: whoever has every message that was ever acknowledged, and can know it.

    a member of the set, with its old store, that cannot have lost anything since     at once
    after a power cut of all, where nobody can know that                              once every member of the set is
                                                                                      there: the longest history
    before there ever was a leader                                                    the longest history of those that
                                                                                      are there; the first that asks,
                                                                                      if all are empty

A set says which epoch its members have known. A store that does not know it is a copy of before, with the same id. A
broker outside the set may lack acknowledged messages: it never stands, unless an operator forces it.
"""

from __future__ import annotations

from pyromq.broker.replication.failover.etcd_state import ClusterView, MemberState


def objection(me: MemberState, view: ClusterView) -> str:
    """Return why this broker may not be elected now; empty if it may."""
    if view.leader is not None:
        return f"broker {view.leader.broker_id} at {view.leader.address} is master"
    if view.members is None:
        return _first_objection(me, view)
    if me.store not in view.members:
        return "it is not in the in-sync set and may lack acknowledged messages"
    if max((epoch.number for epoch in me.epochs), default=0) < view.set_epoch:
        return "its store is older than the in-sync set, such as a backup that was put back"
    if me.is_intact:
        return ""
    missing = [store for store in view.members if store != me.store and store not in view.states]
    if missing:
        return f"its machine lost power, and {len(missing)} of {len(view.members)} members of the set are not there yet"
    others = [view.states[store] for store in view.members if store != me.store]
    if any(other.is_intact for other in others):
        return "its machine lost power, and another member lost nothing"
    return "" if all(_history(me) >= _history(other) for other in others) else "another member has a longer history"


def _first_objection(me: MemberState, view: ClusterView) -> str:
    """Return why this broker may not be the first leader: brokers of a pair that begins with failover have logs."""
    longest = max(view.states.values(), key=_history, default=me)
    if longest.store == me.store or _history(longest)[:2] <= _history(me)[:2]:
        return ""
    return f"nobody has led yet, and broker {longest.broker_id} at {longest.address} has a longer history"


def _history(state: MemberState) -> tuple[int, int, str]:
    """Order histories: the later epoch wins, then the longer log; the store's id breaks a tie."""
    # An epoch that begins behind the log's end was never seen by it.
    seen = [epoch.number for epoch in state.epochs if epoch.start <= state.end]
    return (max(seen, default=0), state.end, state.store)
