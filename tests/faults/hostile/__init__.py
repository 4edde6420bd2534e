"""Rude clients: each behaviour for a few seconds beside a good client, which must not notice.

    python -m tests.faults.hostile                    # all of them
    python -m tests.faults.hostile never_reads bombs  # some
    python -m tests.faults.hostile --list

target       the addresses that are attacked, sockets, and frames
connections  what is done with connections and with bytes that are no requests
requests     floods of requests, and hostile contents
names        floods of names: topics, groups, clients, brokers
behaviours   the table of all behaviours; `python -m tests.faults.hostile.behaviours NAME …` runs one
good_client  sends at a steady pace and measures
__main__     the campaign: quiet, then each behaviour; latency, errors, memory, passes of the loop, a send afterwards

A behaviour is a function that attacks until its time is over. It runs in a process of its own, so that it takes no time
from the good client.
"""
