"""Topics, as operators see and change them.

`topics` holds the theme: list and describe. `changes` creates a topic and changes its settings, `deletion` deletes it,
`resize` gives it more or fewer queues. `description` has the values that they return, `consumers` finds the groups of a
topic with their lag, `queue_ends` what its queues hold, `order_setting` is the text in
which name servers keep the order setting of a topic.
"""
