"""The tables that go with the log: topics, groups, offsets, filters, queue locks, and how far delay levels are.

table_feed       the master answers slaves that ask what has changed (broker/tables/table_followers: who has what)
table_copy       the slave: meets a master, takes all rows, then follows what changes
held_progress    progress that counts deliveries waits until the log here has them
own_commits      what clients committed here while there was no master to follow
takeover         what a slave does with its tables when it becomes master
cut_progress     what a slave does with them when its log is cut
"""
