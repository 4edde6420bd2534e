"""What operators do to servers.

settings      the configuration of brokers and name servers: what differs from the default, and changes
write_pause   no new messages for a broker, and again
cleaning      delete what has expired or belongs to nothing
accounts      the accounts of brokers with access control
audit         the audit logs of all servers
key_values    the KV settings of the name servers
"""
