"""Sockets that carry commands. This layer knows no topic and no broker.

`RemotingServer` (server.py) listens and `RemotingClient` (client.py) connects; `Endpoint` is what they share. Both make
a `Connection` for each socket, which carries requests and answers in both directions.

    a request arrives   connection.py decodes its frame → dispatch.py finds the handler → the answer joins the round
                        some are answered at once by QuickAnswers (dispatch.py), undecoded and without a round
    the round ends      round.py runs its hooks (the broker writes its log), then each connection writes once,
                        straight to its socket if there is room (loop.py)
    a request is sent   outstanding.py keeps the future of its answer and its deadline
    nothing arrives     idle_watch.py closes the connection

What one peer may cost, and all of them together, is in limits.py. requests.py has the types of handlers, and of the
tables in which servers list their requests; audit/ notes those that change something. slices.py serves long requests a
little at a time. ticker.py is the timer that all periodic work uses, and loop.py starts the event loop.
"""
