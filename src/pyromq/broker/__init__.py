"""The broker: takes messages, keeps them in a store, and gives them to consumers. server.py is the door.

server        Broker: opens store and tables; has a reading side, and a writing side while it is master
sides/        the two sides, the ports, and the service that joins them
parts         what handlers share: one value for all, one more for those that write
requests      one table: code → header, handler, right, whether it writes, cost
messages/  pulls/  delay/  transactions/   what happens to messages; each handler lives beside its subject
tables/  clients/  config/                 topics, groups, offsets; who is connected; settings
stats/  tools/                             what is counted; what mqadmin and our AdminClient ask for
replication/                               master and slaves
signals, registration, cleaning            who hears of what; name servers; retention
"""
