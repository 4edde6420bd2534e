"""Pipelines: Spark jobs over topics, run by `pyromq pipeline run NAME` or from Python.

    archive  replay  widen  report  orders   the five pipelines: Options, check, build(spark, options) and run each
    catalog                                  their names, descriptions and options, for commands
    outcome                                  Outcome, and Progress, which a run reports to
    cluster                                  the name servers and account that a pipeline uses
    project  project_template/               projects of Spark's Declarative Pipelines
    common/                                  what pipelines share: options, streams, copies, checkpoints, sending
    topic_profile/                           the figures of `report`, and its page
    pages/                                   charts and HTML, for any page
    demo/                                    `make demo`: a shop's day, checked end to end

A command loads a pipeline from the catalog, checks its options, opens a session (`common.pipeline_session`) and calls
`run`, which builds the frames, writes them, and returns an Outcome.
"""
