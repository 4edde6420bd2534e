"""The clients that applications use: producers and consumers. Operators use `pyromq.admin`, which builds on this.

    net/      connections, routes, name servers, heartbeats and calls to brokers; ClientInstance holds them together
    send/     Producer and TransactionProducer: prepare a message, choose a queue, deliver, retry
    consume/  what both kinds of consumers need: subscriptions, pull loops, buffers, offsets
    group/    membership of a consumer group: allocation, rebalancing, ownership and locks of queues
    push/     PushConsumer: calls a listener        poll/  LitePullConsumer: the caller asks
    listener/ calls the functions of users, async or on threads, and judges their outcomes
    reply/    request and reply over messages       trace/ message traces and OpenTelemetry spans

At the top are the options (`config`), hooks, the result of a send, work in the background, and `lifecycle`: start,
close, `async with` and forks are the same for all clients. An open client has a session (ProducerSession, PushSession,
PollSession). The session borrows a ClientInstance, joins its group there, and returns both when it closes. `portal`
runs all this on a background thread for `pyromq.blocking`.
"""
