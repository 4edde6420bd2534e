"""TLS at both ends of a connection.

    client_tls         Tls: what a client trusts and shows; the context of its connections
    server_tls         ServerTls: the certificate of a server, read again when its files change
    tls_settings       what the configuration of servers says about it
    tls_port           TlsPort: waits for the first byte of a connection, which says whether it is TLS
    self_signed        a certificate that nobody can check, for tests

A connection knows nothing of this: it gets a transport that encrypts. Where TLS is off, nothing of it runs.
"""
