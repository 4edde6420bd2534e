"""Brokers side by side on this machine, under the same load."""
