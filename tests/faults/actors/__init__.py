"""Who acts in `tests/faults/chaos.py` and `tests/faults/failover.py`.

roles       the topics, the groups, and the fate of every message, which the seed decides
listeners   listeners that raise, hang and are cancelled as their messages' fates demand
members     members of groups: in processes that are killed, in tasks that are cancelled
senders     senders of every kind
stage       the broker, what it says about offsets, and what it has in the end
troubles    what goes wrong
draining    how a round ends: every group gets all
broker_set  brokers of one name, each in a process of its own, with their name server and etcd
blows       what is done to them; network cuts their links, machine is their boot and their date
planted     brokers with faults
stubborn    clients that stay with their broker, whoever is master
java_witness  Apache's client, which writes a journal too
failover_report  what rounds have shown
"""
