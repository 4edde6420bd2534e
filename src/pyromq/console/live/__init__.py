"""Pages that change while people look at them: one hub, server-sent events, no polling.

hub     renders each open page once a snapshot, however many browsers show it
events  one stream of server-sent events, and what is sent when a browser is too slow
"""
