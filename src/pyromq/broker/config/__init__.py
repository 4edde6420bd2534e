"""Settings: from broker.conf, --set and UPDATE_BROKER_CONFIG to one checked value.

keys              one row for each key of broker.conf: its field, how to read and to write it
broker_config     BrokerConfig: the value, with a unit and a line for each field
properties_file   the syntax of broker.conf
live_settings     changes while the broker runs, kept for the next start
public_address    which address clients are told, and whether it can be of use to them
"""
