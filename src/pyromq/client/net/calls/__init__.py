"""Requests to brokers and name servers: one typed method for each, which returns a value or raises BrokerError.

    base         BrokerCalls: send any request, turn an error code into an exception
    broker_api   BrokerApi: routes, sends, pulls, offsets, queries; inherits the next two, so clients need only this
    group_calls  members of groups: heartbeats, offsets, locks, messages sent back
    timer_calls  timed messages: cancel and list
    admin_calls  AdminCalls, for operators: groups, topics, transactions, configuration
    answers      the values that answers become

The caller chooses the address and the time-out. Nothing here retries or looks up a route.
"""
