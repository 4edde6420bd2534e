"""Spark reads the same messages from PyroMQ and, with its own Kafka source, from Kafka."""
