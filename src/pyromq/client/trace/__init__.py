"""Traces of what a client sends and consumes: RocketMQ's trace messages, and OpenTelemetry spans.

    config       the public option Trace
    tracing      all parts of one traced client, opened and closed with it
    trace_hooks  hooks that turn sends and listener calls into trace records
    dispatcher   gathers records into trace messages, and sends them with a small producer of its own
    spans        OpenTelemetry spans; imported only if wanted, because it loads OpenTelemetry
    client_metrics   the option `metrics=`: counts and times for Prometheus or OpenTelemetry

A hook puts a record into the dispatcher. Within half a second the dispatcher sends it with others as one message. If
too many wait, or a send fails, records are counted and lost: the client itself never waits for its traces.
"""
