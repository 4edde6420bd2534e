"""Dead letters, as an operator looks at them.

`dead_letters` is the theme: list, read, send again. `causes` groups letters by why they failed, `tries` compares the
copies of a letter from its first delivery to the last.
"""
