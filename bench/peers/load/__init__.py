"""A load generator that is not the bottleneck, for RocketMQ and its peers.

load.c       one thread, epoll, closed loop or fixed rate; sends requests made beforehand, counts and times the answers
answers.c    how the answers of each protocol look
build.py     compiles them with `cc`, once
generator.py the connections and requests of a load, and its result
rocketmq.py  sends and pulls as Java's clients write them
"""
