"""Web pages of a running server. For now two: /healthz for load balancers and /varz with all figures, as JSON.

health.py builds the application and serves it inside the server's own process and event loop. The figures come from the
registries of the servers (pyromq/figures.py); no page reads anything else. More pages will come beside health.py.
"""
