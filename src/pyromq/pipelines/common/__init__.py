"""What several pipelines share.

    pipeline_session   a session for a run, and Spark's errors in one line
    quiet              keeps Spark's chatter off stderr
    spark_place        where Spark runs, and what this machine can look at before it starts
    source_options     which topics to read, from where and from when
    message_selection  which archived messages or dead letters to send
    checkpoints        which stream a checkpoint belongs to
    shared_files       checks that executors see a directory
    watching, streams  one streaming query until it ends, or several of one run
    copies, sending    copies of messages, each stored once even after a crash, sent with progress
    targets            creates the topics that copies go to

A batch pipeline selects (`message_selection`), marks copies (`copies`) and sends what is missing (`sending`). A
streaming pipeline checks its checkpoint and directory, starts queries, and watches them (`watching`, `streams`).
"""
