"""The functions that users pass in: listeners of messages, and those of transactions.

    listener.py           what a listener's signature says: one message or a batch, async or not; and how to call it
    listener_threads.py   threads for functions that are not async
    outcomes.py           what a listener may return or raise, and what each outcome means

A consumer (push/) binds its listener once, calls it for each job and judges what it returned or raised. A transaction
producer (send/) calls the user's functions in the same way and expects COMMIT, ROLLBACK or UNKNOWN.
"""
