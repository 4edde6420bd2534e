"""The network side of all clients, shared by producers and consumers with the same instance name.

    instance         one client as brokers see it: id, connections, groups; starts the background work
    sharing          borrow an instance, get a handle; only the handle leaves the groups that it joined
    name_servers     several name servers as one          address  their addresses, and the client's id
    routes           which brokers have a topic           publish_info  its queues, one after the other for sends
    route_watch      asks for the route of a broker that fails, at a bounded rate
    unreachable      brokers that could not be reached a moment ago: others are asked first
    message_ids      ids that no other process makes
    heartbeats       tell the brokers which groups are here
    calls/           requests to brokers and name servers, one typed method each
    broker_requests  requests from brokers: rebalance, reset, running info, replies, transaction checks
    diagnosis        why a topic cannot be reached, for error texts

A send asks `routes` for a queue and its master's address, then calls the broker by `calls`. If that fails, another
broker is tried, or `route_watch` asks for the next master. In the end `diagnosis` checks each step of the way for the
exception's text.
"""
