"""What a server shows of itself over HTTP: pages for machines, and the console for people.

monitoring/   /metrics, /healthz, /varz …, in the event loop of the server

"""
