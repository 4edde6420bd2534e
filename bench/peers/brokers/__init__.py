"""Brokers side by side on this machine, under the same load.

work.py        what is measured: kind, shape, the servers' setting
peer.py        what a broker must offer to be measured
rocketmq.py    PyroMQ and Apache RocketMQ: one protocol, one set of settings
kafka.py, redis.py, nats.py, rabbitmq.py    the others, each with its protocol's requests
comparison.py  starts them, runs them in turn, keeps all rounds as JSON
result.py      a run's rounds, read again: medians, ratios, disturbed rows
page.py        the tables and the chart of docs/performance.md
"""
