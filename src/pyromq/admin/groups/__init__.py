"""Consumer groups, as an operator sees and changes them.

A look: `groups` asks `snapshot` for what all brokers and all members report at one moment, over `AdminCalls`. If
messages wait, it takes a second snapshot a second later. `queue_progress` makes a row for each queue from the two: lag,
age, owner, and what blocks it by the rules of `problems`. `problems` also turns the whole into findings, one line each.
The result is a `GroupDescription` of `description`, which holds every value that an operator gets.

Advice: `advice` computes threads and members from what the members measured, over two snapshots.

A change: `changes` alters settings, copies offsets and deletes groups; `offset_reset` moves offsets back or ahead. Both
first make a plan, and change nothing unless every broker answers. `Groups` inherits them, so that one object has all
verbs.
"""
