"""App: consumers by decorators, with typed payloads, given parameters and published results.

    application.py       App: what users write; it collects handlers, values, hooks and middlewares
    signature.py         what a function's signature asks for: the payload, the message, values by type
    handlers.py          Handler and HandlerGroup: who gets which message of a group; mistakes are refused here
    providers.py         values by type, and resources that live as long as the App runs
    calls.py             one call of a handler: decode, middlewares, run it, publish what it returned
    worker_processes.py  processes for handlers that need a CPU of their own
    session.py           the parts of an App while it is open: producer, resources, one consumer for each group
    asyncapi.py          the AsyncAPI document of an App
    without_broker.py    what a broker would do with a message, for tests without a network
    running/             `pyromq run`: load an App, run it in one process or several, reload it

A message comes to the PushConsumer of its group, whose listener (calls.py) finds the handler by topic and tag, decodes
the body, calls the handler through the middlewares, sends what it returned, and then acknowledges.
"""
