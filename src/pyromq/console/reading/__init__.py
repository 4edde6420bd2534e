"""What the console knows of the cluster.

snapshot    one reading of all brokers, topics and groups: every list page is made from it, and shows its age
reader      takes snapshots through AdminClient, only while somebody looks or the history needs one
history     rates, lag and disk of the last hours: a bounded ring in memory, kept on disk
problems    what is wrong, in words, with what to do      forecast   when a disk will be full
queue_rates how fast the queues of a topic grow, while somebody looks at it
features    what the brokers of this cluster can do
"""
