"""The sink: rows of a frame become messages, sent at least once with ids that repeat if a task runs again.

    writer         BatchWriter and StreamWriter, which Spark calls; a task sends until all rows are acknowledged
    message_rows   MessageRows: topics, keys, bodies and properties of rows, column by column
    property_text  builds property texts from columns
    sink_task      SinkTask: the identity of a task, and message ids made from it
    batches        rows for one queue -> the body of one send request
    batch_sender   sends batches: many in flight, one after another per queue, with retries

An Arrow batch passes `message_rows`, `batches` and `batch_sender` in this order.
"""
