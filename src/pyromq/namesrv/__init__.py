"""The name server: tells clients which brokers serve a topic.

A broker registers every 30 s with all its topics (broker_registration.py); routes.py keeps who serves what, in memory
only. A client asks for the route of a topic. A broker is forgotten when it says so, when its connection closes, or when
it has been silent for 120 s.

    server.py     builds the parts and listens; scans for silent brokers
    requests.py   one row for each request code: header, handler, right, writes, cost
    handlers.py   answers each request from the tables below
    routes.py     brokers, clusters, topics        kv.py      values that administrators keep, such as topic orders
    master_epochs.py  which master of a broker name is the newest
    rivals.py     brokers that register under one name and id at the same time
    config.py     settings, and those that can be changed over the wire
"""
