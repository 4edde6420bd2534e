"""Transactions: half messages, which no consumer sees until their producer commits them.

    sent         open_transactions.py turns the message into a half message (half_messages.py has all its records)
    ended        the producer commits or rolls back (transaction_requests.py). An end writes the committed message and,
                 in the same group, an op record that settles the half message
    ended late   late_ends.py and transaction_history.py search the store first: a transaction ends only once
    not ended    state_checks.py asks a producer of the group, and gives up after too many questions
    retention    half_mover.py writes open half messages again before their file of the log is deleted
    saved        transaction_ledger.py knows which half messages are open; transaction_progress.py saves how far it is

transaction_service.py builds all of it for the broker.
"""
