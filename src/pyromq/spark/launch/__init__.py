"""What a session needs before and while it starts; `spark.session` uses all of it.

    java               finds a Java for Spark and sets the environment; the cache directory
    addresses          checks that a cluster answers, because Spark itself would retry for minutes
    interrupted_start  ends the JVM if Ctrl-C interrupts its start
    ship               packs the package as a zip file for clusters that do not have it
    shipped_source     the data source that carries the package, pickled by value

`register(spark, ship=True)` calls `ship`, which gives executors the zip file and returns a `ShippedSource`. Where
PyroMQ is not installed, that source first makes the package importable, then delegates to the real one.
"""
