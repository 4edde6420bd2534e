"""How the cost of a message grows with what a broker holds.

backlog.py   a store of up to a hundred million messages, written file by file in the exact format
measure.py   the same load at several sizes of one thing, interleaved
model.py     the capacity model: predicted and measured points, a cluster on paper
"""
