"""Screens about messages: found ones (messages, message_search), one (message, message_trace), and those that wait.

Those that wait are dead letters (dead_letters), delayed ones (delays) and half messages (transactions). Every body goes
through `Visit.bodies`.
"""
