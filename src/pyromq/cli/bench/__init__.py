"""The load generator behind `pyromq bench`.

`bench_target` finds the brokers and queues of a topic. For `bench send` and `bench consume`, `load_generator` opens raw
connections and keeps a fixed number of requests in flight on each. For `bench end-to-end`, `end_to_end` sends at a
fixed rate with the real client. All of them count into `LoadCounts`; `measurement` decides when counting starts and
ends, and turns the counts into the result that is printed.
"""
