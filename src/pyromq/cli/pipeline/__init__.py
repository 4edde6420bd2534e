"""What `pyromq pipeline run` needs beyond the pipelines themselves.

`generated_commands` makes a command from the fields of a pipeline's Options, runs it in a Spark session and prints the
outcome. `progress_bar` draws the progress on a terminal, and ends a run after its current batch when a signal arrives.
"""
