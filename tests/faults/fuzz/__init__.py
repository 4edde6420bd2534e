"""Fuzzers for every decoder and for conversations with servers: mutated inputs, and what may come of them.

    python -m tests.faults.fuzz --minutes 60              # all decoders in turn
    python -m tests.faults.fuzz sql92 records --minutes 5
    python -m tests.faults.fuzz --record                  # add what was run to tests/faults/FUZZING.md
    python -m tests.faults.fuzz.conversations             # sequences of requests of all codes

decoders       the table: each decoder, what it may raise, and inputs to begin with
mutations      how inputs are changed; inputs that reach new code are kept and changed further
corpus         inputs that once broke a decoder, or reached new code, in base64: each is tried in every run
__main__       runs them and judges
conversations  a live broker and name server, and requests that refer to each other
questions      those requests

A decoder may return or raise the errors of its row. Anything else is a finding, and so is more than a second, or more
memory than twice the input and a constant. `frame_fuzz` sends requests of every code to running servers.
"""
