"""Access control: who may do what at a broker and at a name server.

    account            Account, a value: its rights on topics and groups
    address_patterns   the patterns of white lists
    account_file       plain_acl.yml and acl/*.yml: bytes ↔ accounts
    accounts           Accounts: all files of a server, read again when they change
    access_control     AccessControl: lets a request in, or refuses it before its handler runs
    signatures         Verifier: compares signatures, quickly
    replays            Replays: refuses what was sent before, where the client lets it be known
    account_changes    AccountChanges: what requests 50 to 53 do to the files
    decisions          from the right in a row of the table of requests to the check of a request
    open_access        what handlers ask about rights; a server without access control allows everything

A frame arrives, `remoting` decodes it, and AccessControl compares its signature and looks up the right of its code.
What only a handler can know, such as the topic of the message at an offset, the handler asks about when it knows it.
"""
