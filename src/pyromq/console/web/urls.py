"""Addresses of pages about things with names: these may hold `%`, so they are quoted here and nowhere else."""

from __future__ import annotations

from urllib.parse import quote


def topic_url(topic: str, *more: str) -> str:
    """Return the page of a topic, or one below it."""
    return "/".join(["/topics", quote(topic, safe=""), *more])


def group_url(group: str, *more: str) -> str:
    """Return the page of a group, or one below it."""
    return "/".join(["/groups", quote(group, safe=""), *more])


def message_url(topic: str, message_id: str) -> str:
    """Return the page of a message."""
    return f"/messages/{quote(topic, safe='')}/{quote(message_id, safe='')}"
