"""`pyromq top`: a live table.

`screen` holds what is chosen (view, order, filter, pause) and draws an overview; it knows no terminal, so tests press
its keys. `keyboard` reads keys one by one while the table is shown. `cli/commands/top.py` joins the two.
"""
