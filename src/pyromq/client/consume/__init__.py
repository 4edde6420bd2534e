"""What both consumers share: from a subscription to messages in a buffer, and from there to a committed offset.

    subscriptions.py   filter_support.py             which messages are wanted, and whether brokers can filter so
    start_from.py      initial_offset.py             where reading starts
    fetch.py           pull_loop.py                  one pull, and the loop that keeps a buffer filled
    assignment.py                                    the queues that a consumer has now, each with its pull loop
    assigned_queue.py  process_queue.py              the buffer of one queue: its base, and the push consumer's
    fair_queue.py                                    queues that have messages, served in turn
    offset_store.py    commits.py                    where progress is kept, and how it gets there
    running_info.py    consumer_stats.py   stall_report.py    what a consumer reports about itself to tools

Rebalance (group/) gives a consumer its queues. Assignment starts a PullLoop for each; InitialOffset says where it
starts; Fetcher pulls, and the buffer keeps the messages for push/ or poll/. Commits writes what was consumed.
"""
