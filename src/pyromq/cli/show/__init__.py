"""How things look in a terminal: lines and tables for people, and files of dead letters.

`console` is where tables go. `lines` has what all need: JSON lines, a line for a message, and text without control
characters. A hostile body or client id must not reach the terminal as it is. `group_tables`, `topic_tables`,
`trace_table` and `transaction_table` make tables; `dead_letter_output` shows and exports dead letters, with
`parquet_file` for Parquet; `app_page` is the page of an App. The JSON fields themselves come from `pyromq.admin.views`.
"""
