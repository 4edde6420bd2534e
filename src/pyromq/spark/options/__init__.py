"""The options of format "pyromq", as Spark passes them: names in lower case, values as text.

    read_options   ReadOptions, and the table of all read options     a new read option is one row there and one field
    store_options  the options of reads from a store's files, and which others may go with them
    write_options  WriteOptions: the options and columns of a sink
    option_values  parsers that reads and writes share, and the errors for unknown names

`read_options()` and `write_options()` check everything at once, before anything is connected. The results are plain
values, because they are pickled and travel to the executors.
"""
