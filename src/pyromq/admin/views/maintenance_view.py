"""The JSON of settings, paused writes, cleaning and KV settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyromq.admin.maintenance.cleaning import BrokerCleaning, Cleanable
from pyromq.admin.maintenance.key_values import KvSetting
from pyromq.admin.maintenance.settings import PlannedChange, ServerSettings, Setting
from pyromq.admin.maintenance.write_pause import WriteState


def setting_fields(server: ServerSettings, setting: Setting) -> dict[str, Any]:
    """Return one setting of a server."""
    return {
        **_server_fields(server),
        "key": setting.key,
        "value": setting.value,
        "default": setting.default,
        "differs": setting.differs,
        "changeable": setting.changeable,
    }


def planned_change_fields(change: PlannedChange) -> dict[str, Any]:
    """Return a change of a setting."""
    return {**_server_fields(change.server), "key": change.key, "before": change.before, "after": change.after}


def _server_fields(server: ServerSettings) -> dict[str, Any]:
    return {"broker_name": server.broker, "broker_id": server.broker_id, "address": server.address}


def write_state_fields(state: WriteState) -> dict[str, Any]:
    """Return whether a broker takes messages."""
    return {
        "broker_name": state.broker,
        "address": state.address,
        "paused": state.is_paused,
        "refuses_all": state.refuses_all,
        "unrouted_at": list(state.unrouted_at),
        "differing_slaves": list(state.differing_slaves),
    }


def cleaning_fields(cleaning: BrokerCleaning, what: Collection[Cleanable]) -> dict[str, Any]:
    """Return what there was to delete at a broker; null if it cannot say."""
    fields: dict[str, Any] = {"broker_name": cleaning.broker, "address": cleaning.address}
    found = cleaning.found
    if "expired_files" in what:
        fields["expired_files"] = None if found is None else found.expired_files
        fields["expired_bytes"] = None if found is None else found.expired_bytes
    if "expired_queues" in what:
        fields["expired_queue_count"] = None if found is None else found.expired_queue_count
        fields["expired_queues"] = (
            None if found is None else [{"topic": topic, "queue_id": number} for topic, number in found.expired_queues]
        )
    if "unused_topics" in what:
        fields["unused_topic_count"] = None if found is None else found.unused_topic_count
        fields["unused_topics"] = None if found is None else found.unused_topics
    return fields


def key_value_fields(value: KvSetting) -> dict[str, Any]:
    """Return a KV setting, and what other name servers have."""
    return {"namespace": value.namespace, "key": value.key, "value": value.value, "others": dict(value.others)}
