"""What `pyromq send` needs beyond the producer.

`stdin_lines` yields the lines of standard input as they arrive. `send_window` keeps some sends in flight, prints their
results in order, and finishes what is in flight when a send fails or the user presses Ctrl-C.
"""
