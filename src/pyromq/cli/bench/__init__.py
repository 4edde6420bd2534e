"""The load generator behind `pyromq bench`.

`bench_target` finds the brokers and queues of a topic. For `bench send` and `bench consume`, `loads` says what each
process does, `load_generator` opens raw connections, and `load_slots` makes the requests. For `bench end-to-end`,
`end_to_end` sends at a fixed rate with the real client. All of them count into `LoadCounts`; `measurement` decides when
counting starts and ends, and turns the counts into the result that is printed, and that `chart` draws.
"""
