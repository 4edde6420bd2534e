"""`make demo`, or `python -m pyromq.pipelines.demo`: a day in a shop, checked end to end.

    main         starts servers and Spark, runs the day, prints a table and writes a page
    shop         takes orders: payments in transactions, delayed messages that cancel unpaid orders
    departments  three consumer groups: orderly, filtered by SQL, and one that fails and retries
    shop_day     runs shop and departments, and compares what went in with what came out
    books        what Spark made of the orders, compared in the same way
    demo_page    the page

Orders go in through a transaction producer. They come out of four consumer groups and of the pipeline `orders`. The
demo succeeds only if all counts and amounts agree.
"""
