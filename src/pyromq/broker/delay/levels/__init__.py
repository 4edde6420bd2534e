"""Delay levels: messages wait in SCHEDULE_TOPIC_XXXX, in one queue for each level, until they are due.

    put      schedule.py moves the message to the queue of its level; its own topic and queue become properties
    due      delay_level.py waits for the first message of its queue and delivers what is due, in batches
    saved    delay_offsets.py writes delayOffset.json every second: how far each level is
    killed   schedule_recovery.py finds in the log what was delivered since the last save

schedule_queue.py reads one of the queues.
"""
