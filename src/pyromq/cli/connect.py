"""What a command needs to know of a topic before it talks to its brokers."""

from __future__ import annotations
