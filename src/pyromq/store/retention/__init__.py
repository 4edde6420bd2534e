"""What goes: expired files of the log, what queues and index still hold of them, and deleted topics.

    retention (which files may go) → cleaner (takes them out of use) → remover (removes them in a thread)

`retention` judges age, size and disk by RocketMQ's rules, and removes nothing. `cleaner` makes the passes, on the
thread that writes; queues follow the log a few at a time. `deletions` remembers deleted topics until the log has lost
their last record, so that recovery does not bring them back.
"""
