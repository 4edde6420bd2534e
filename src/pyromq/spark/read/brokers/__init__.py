"""Reading through brokers: planning on the driver asks `broker_queues`, tasks call `slice_reader`.

    broker_queues      BrokerQueues: topics, queues and offsets as the brokers report them; single pulls
    slice_reader       read_slices: the ranges of a task -> Arrow batches, with a check for missing messages
    queues_reader      several queues of one broker together, by large pulls; only for PyroMQ brokers
    broker_connection  the blocking socket for these pulls
    puller             one range by plain pulls, with retries: the way that works with every broker

`slice_reader` tries `queues_reader` first. What that leaves unread goes through `puller`, queue by queue.
"""
