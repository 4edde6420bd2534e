"""Reading from a broker: pulls, what they select, and questions about offsets and single messages.

    a pull arrives       pull.py makes RocketMQ's checks; selection.py works out which messages the group wants
    messages are there   the store reads them; tags are compared in the queue, more than tags by property_filters.py
                         (SQL92 expressions, and the operator's own functions in filter_functions.py)
    nothing is special   plain_pulls.py answers in a few steps; quick_pulls.py does not even decode the next ones
    nothing is there     long_polling.py holds the pull until a message arrives or its time is up
    a wrong offset       the consumer gets the right one; offset_moved_events.py records it
    of a deleted topic   topic_lives.py tells topics of one name apart: the consumer begins anew

pull_queues.py reads several queues at once, for Spark. offset_requests.py answers what groups have committed and where
queues begin and end. message_query.py finds messages by key.
"""
