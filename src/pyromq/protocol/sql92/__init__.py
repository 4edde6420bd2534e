"""SQL92 filters: expressions over a message's properties, with the results of Apache's broker.

lexer        text to tokens, read only as the parser asks for them
parser       tokens to a tree, with RocketMQ's grammar, checks and limits
tree         the nodes; how large a tree is, and how it is written down again
values       numbers and texts, read and compared as Java does
evaluation   a tree to a function of a message's properties
sql_filter   SqlFilter: all of it behind one class

Operators' tools look at whole messages and have a little more than brokers:

body_fields  the values of `body.field`, if the body is JSON
conditions   MessageCondition: an expression over the properties and the body of a message
"""
