"""How a message gets in: checks, storing, and the answer that leaves when what it promises is true.

send                SEND_MESSAGE and its relatives: topic and queue, the record, the store's open group
sent_properties     the properties of a send, as they are stored
deferred_messages   messages that consumers may not see yet: half of a transaction, or delayed
new_topic_sends     sends to a topic that is not on disk yet wait until it is
new_queue_sends     sends to a queue that has no file yet wait until a thread has made it
durability          how far the log is safe: flushed here, copied by slaves
acknowledgements    at the end of the loop's pass the group is written, and the answers leave when it is confirmed
flow_control        refuses sends while taking them would make everything worse
send_back, retries  messages that a consumer could not handle; dead_letter_watch warns before dead letters expire
reply               answers to request messages
"""
