"""What administrators ask: mqadmin, consoles and our AdminClient.

administration     builds the handlers below
broker_admin       settings, runtime information, statistics        topic_admin   topics, and who uses them
group_admin        groups and their members                         queue_entries the entries of a queue
consume_progress   how far groups are                               offset_resets moves them elsewhere
consumer_relay     passes a question on to a consumer, and its answer back
"""
