"""Web pages of a running server, for machines and for people with curl.

    monitoring    serves all of this on one port of the server's own process and event loop (http_server)
    pages         the pages: health, readiness, metrics, figures and tables     access   who may see them
    watched       the servers that they tell about                              tables   connections, topics, groups
    metrics       collects /metrics in small steps: exposition (the text), loop_lag

What pages show comes from the registries of the servers (pyromq/figures.py) and from their problems
(pyromq/problems.py).
"""
