"""Sending: the way of a message from `Producer.send` to a broker.

    producer        the public class; producer_session: what it has while it is open
    prepare         checks the message, gives it an id, encodes its properties, compresses a large body
    delivery        chooses a queue, sends, retries on other brokers, explains failures
    fast_send       the shortcut for plain messages: one frame from a template, the same bytes
    linger          gathers small messages into batches    in_flight        limits how many are sent at a time
    delays          delivery times and levels              fault_tolerance  avoids slow brokers
    find_message    finds a stored message by its id
    transaction_producer, transaction_session, local_transactions: half messages, and how they end

A plain message takes `fast_send`. All others, and every retry, go through `prepare` and `delivery`.
"""
