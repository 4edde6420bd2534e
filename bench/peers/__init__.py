"""PyroMQ and its peers, side by side in one run on this machine.

load/      the generator: connections, requests, answers, figures
brokers/   brokers under the same load: Apache RocketMQ, Kafka, Redis Streams, NATS JetStream, RabbitMQ
lanes.py   variants of our own broker
spark/     Spark reading from PyroMQ and from Kafka
kafka.py   a Kafka broker, for both
"""
