"""Views: the JSON of everything that operators are shown.

A function here takes one value of the operator's client and returns a dict of plain values, ready for `json.dumps`.
Commands print it as a line (`--json`), and the console sends it to the browser, so that both use the same field names.
Fields of messages are named like the Spark columns. Tables and colours are not here: those are in `cli.show`.

`iso_times` writes times. `message_view` shows messages and results of sends, `pending_view` messages that wait (delayed
or in a transaction), `dead_letter_view` dead letters, `trace_view` message traces, `group_view` consumer groups and
`topic_view` topics.
"""
