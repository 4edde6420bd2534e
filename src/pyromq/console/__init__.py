"""What a server shows of itself over HTTP: pages for machines, and the console for people.

    monitoring/   /metrics, /healthz, /varz …: made in the event loop of the server
    thread        serves both on one port, from a thread and a loop of its own
    console       all parts of a console      route_table   which page, which role, which handler
    screens/      a module for each screen    templates/, static/, texts/   their markup, files and translations
    web/          from a request to its handler and back
    login/        users, roles, sessions      reading/   snapshots of the cluster, history
    live/         server-sent events          audit, jobs   what was changed; what still goes on

A request finds its Route, which names the role it needs. The handler gets a Visit: the snapshot for lists, AdminClient
for everything else. It returns a page, or changes something and redirects to one.
"""
