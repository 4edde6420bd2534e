"""Handover: another broker of the same name becomes master, because an operator says so (PROMOTE_BROKER, STEP_DOWN).

    handover_requests   the two requests; what answers them is a Handover: ByHand here, another one under failover
    by_hand             taking_over is the slave that becomes master, stepping_down the master that makes room
    held_requests       what writes, while no broker may take it

S is the slave that an operator chose, M its master. All steps are S's; M only answers.

    1  S asks M to PREPARE, and names the time that it needs, counted from before it asks
    2  M holds what writes, lets all answers leave that wait, and closes its writing side; its log has an end now, and
       it goes on sending it to slaves. It answers with that end. It waits for S for the named time, from when it was
       asked
    3  S waits until it has the log up to that end
    4  S stops to follow: from here on it confirms nothing. It copies the tables once more
    5  S begins an epoch, durably, and looks at its clock: only before the named time has passed does it go on
    6  S opens its writing side and registers
    7  S tells M that it is DONE. M becomes a slave, and the requests that it held are refused with
       SERVICE_NOT_AVAILABLE (14): their senders ask for the route and find S

What if one of the two dies, or they cannot hear each other, after a step:

    1  M never heard of it, or heard of it and waits in vain: it asks S, hears that S is a slave, or nothing, and goes
       back to work in a new epoch; what it held it takes then. If M died, S stays a slave and says so
    2  as 1. Neither of them answers a send meanwhile
    3  S says GIVE_UP if its log does not get whole in time, and M goes back to work; without a word it does so by
       itself, at the named time
    4  as 3; S follows again. Both are slaves until then
    5  S is late by its own clock, which began before M's: it leaves the epoch unused, and follows again
    6  M waits, asks S at the named time, hears that S leads a later epoch, and becomes its slave. If it cannot reach S
       it goes back to work. S repeats step 7 until M hears it, and the one with the later epoch stays master: M's is
       later by two, so that the two never tie. Meanwhile both take messages. As SYNC_MASTER neither acknowledges
       one with SEND_OK, unless one of them has a further slave, which can follow only one of them at a time:
       M has none that confirms since step 4, S has none until M, or another one, follows it
    7  M's follower asks the name servers again and again until they name S

Without an answer of M, S takes over only by force: it stops to follow first, has the other slaves of its name leave
every epoch before its own (FOLLOW), begins its epoch, and tells M when that can be reached again. From the moment at
which it stops to follow, an old SYNC_MASTER that still lives gets no confirmation from it, and can give no SEND_OK. An
old ASYNC_MASTER asks nobody; what it acknowledges until it hears of its successor is lost.
"""
