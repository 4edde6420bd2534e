"""What operators do to servers.

settings      the configuration of brokers and name servers: what differs from the default, and changes
write_pause   no new messages for a broker, and again
cleaning      delete what has expired or belongs to nothing
key_values    the KV settings of the name servers
"""
