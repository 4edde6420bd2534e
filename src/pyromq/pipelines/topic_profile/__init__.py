"""The figures of the pipeline `report`, and the page that shows them.

    survey         topics, queues and group progress, from brokers or files, before Spark reads anything
    frames         what Spark counts: figures, keys and tags, failures        trace_frames   the same for message traces
    collect        runs the frames and gathers their rows into a Profile
    profile        Profile: all figures as plain values                       distributions  percentiles and histograms
    report_page    the whole page        topic_section, group_sections        its parts
    headlines      sentences on what stands out

`pipelines.report` surveys, builds frames, collects a Profile and renders it with `report_page`.
"""
