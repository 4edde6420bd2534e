"""What a broker has counted, and how tools see it.

    a message is stored     Topic.count_put (tables/topic_table.py): the one place where puts are counted
    a pull is answered      BrokerStats.count_get or count_miss (broker_stats.py): the one place for gets
    every 10 s              BrokerStats.sample turns the counts into rates and series (time_series.py)
    a tool asks             VIEW_BROKER_STATS_DATA (315) returns a series; the figures below return everything else

Figures are rows of the registry in pyromq/figures.py. Each part of the broker has its own rows beside it; those of the
store are in store_figures.py, those of the counts in broker_stats.py. runtime_info.py renders them as RocketMQ's
runtime information (28); /varz is another rendering.
"""
