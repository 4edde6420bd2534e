"""Request and reply: a message whose consumer answers the client that sent it.

`requester` is the asking side: it adds a correlation id to the message and waits for the reply. A listener calls
`message.reply(body)`, which is `replier`: it sends the reply to the broker that the request came from. That broker
pushes it to the asking client, where `net.broker_requests` passes it to the waiting request.
"""
