"""The timer: messages that are delivered after any delay or at any time, up to 40 days ahead. See docs/timer.md.

    put        message_timer.py moves the message to rmq_sys_wheel_timer; timer_records.py has all its records
    stored     timer_follower.py reads that queue and adds time and place to the ledger on disk (timer_ledger.py)
    near       what is due within seconds is in memory (due_window.py)
    due        timer_delivery.py stores it once more, in its own topic
    killed     timer_follower.py finds in the log what the ledger on disk does not have yet
    expired    message_mover.py writes what still waits again, before its file of the log is deleted
    cancelled  timer_requests.py answers requests that cancel and list messages

timer_service.py builds all of it for the broker.
"""
