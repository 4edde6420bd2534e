"""The operator's client: look at a cluster and change it.

>>> from pyromq.admin import AdminClient

`admin_client` opens the connections and holds one object for each theme: `groups`, `topics` and `messages` (packages),
`letters` (dead letters), `clusters` (masters and slaves), `clients`, `maintenance` (configuration, pauses, cleaning, KV
settings), `health` (overview, checks, doctor), `timed_messages`, `transactions` and `traces`. A theme asks the brokers
and returns frozen values. `masters` asks all brokers of a cluster at once and keeps the ones that do not answer apart.
`topic_reader` reads what a topic holds, without a group. `views` turns the values into JSON: commands and the console
show the same fields. `support` makes debug bundles.
`contexts` keeps named clusters in a file of the user. `blocking_client` is the whole client without `await`.

The names below are public. Each is loaded on first use, so that importing one part does not load all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.admin.admin_client import AdminClient as AdminClient
    from pyromq.admin.clients import ClientListing as ClientListing
    from pyromq.admin.clients import Clients as Clients
    from pyromq.admin.clients import ConnectedClient as ConnectedClient
    from pyromq.admin.clusters import BrokerStatus as BrokerStatus
    from pyromq.admin.clusters import ClusterStatus as ClusterStatus
    from pyromq.admin.clusters import PromotionPlan as PromotionPlan
    from pyromq.admin.contexts import ClusterContext as ClusterContext
    from pyromq.admin.contexts import Contexts as Contexts
    from pyromq.admin.groups.advice import GroupAdvice as GroupAdvice
    from pyromq.admin.groups.advice import MemberLoad as MemberLoad
    from pyromq.admin.groups.description import GroupDescription as GroupDescription
    from pyromq.admin.groups.description import GroupListing as GroupListing
    from pyromq.admin.groups.description import GroupSummary as GroupSummary
    from pyromq.admin.groups.description import HeadMessage as HeadMessage
    from pyromq.admin.groups.description import Member as Member
    from pyromq.admin.groups.description import Opinion as Opinion
    from pyromq.admin.groups.description import QueueProgress as QueueProgress
    from pyromq.admin.groups.description import TopicCount as TopicCount
    from pyromq.admin.groups.description import TopicSubscription as TopicSubscription
    from pyromq.admin.groups.groups import Groups as Groups
    from pyromq.admin.groups.offset_reset import OffsetMove as OffsetMove
    from pyromq.admin.groups.offset_reset import ResetPlan as ResetPlan
    from pyromq.admin.groups.offset_reset import ResetTo as ResetTo
    from pyromq.admin.health.checks import CheckLimits as CheckLimits
    from pyromq.admin.health.checks import CheckReport as CheckReport
    from pyromq.admin.health.checks import CheckResult as CheckResult
    from pyromq.admin.health.checks import Level as Level
    from pyromq.admin.health.checks import Limit as Limit
    from pyromq.admin.health.examination import DoctorStep as DoctorStep
    from pyromq.admin.health.examination import Examination as Examination
    from pyromq.admin.health.examination import StepStatus as StepStatus
    from pyromq.admin.health.overview import BrokerLoad as BrokerLoad
    from pyromq.admin.health.overview import GroupLoad as GroupLoad
    from pyromq.admin.health.overview import Overview as Overview
    from pyromq.admin.health.overview import TopicLoad as TopicLoad
    from pyromq.admin.letters.causes import CauseGroup as CauseGroup
    from pyromq.admin.letters.dead_letters import DeadLetters as DeadLetters
    from pyromq.admin.letters.dead_letters import DeadLetterTopic as DeadLetterTopic
    from pyromq.admin.letters.dead_letters import LetterCauses as LetterCauses
    from pyromq.admin.letters.letter import Letter as Letter
    from pyromq.admin.letters.letter import Wanted as Wanted
    from pyromq.admin.letters.tries import PropertyChange as PropertyChange
    from pyromq.admin.letters.tries import Try as Try
    from pyromq.admin.maintenance.cleaning import BrokerCleaning as BrokerCleaning
    from pyromq.admin.maintenance.key_values import KeyValues as KeyValues
    from pyromq.admin.maintenance.key_values import KvListing as KvListing
    from pyromq.admin.maintenance.key_values import KvSetting as KvSetting
    from pyromq.admin.maintenance.settings import PlannedChange as PlannedChange
    from pyromq.admin.maintenance.settings import ServerSettings as ServerSettings
    from pyromq.admin.maintenance.settings import Setting as Setting
    from pyromq.admin.maintenance.settings import Settings as Settings
    from pyromq.admin.maintenance.settings import SettingsPlan as SettingsPlan
    from pyromq.admin.maintenance.write_pause import WritePausePlan as WritePausePlan
    from pyromq.admin.maintenance.write_pause import WriteState as WriteState
    from pyromq.admin.messages.consumption import ConsumptionState as ConsumptionState
    from pyromq.admin.messages.consumption import GroupConsumption as GroupConsumption
    from pyromq.admin.messages.direct_consumption import DirectPlan as DirectPlan
    from pyromq.admin.messages.direct_consumption import DirectResult as DirectResult
    from pyromq.admin.messages.level_loads import LevelLoad as LevelLoad
    from pyromq.admin.messages.messages import Messages as Messages
    from pyromq.admin.messages.search import MessageSearch as MessageSearch
    from pyromq.admin.messages.search import SearchBudget as SearchBudget
    from pyromq.admin.messages.search import SearchStop as SearchStop
    from pyromq.admin.messages.search import TimeRange as TimeRange
    from pyromq.admin.messages.traces import ConsumeEvent as ConsumeEvent
    from pyromq.admin.messages.traces import MessageTrace as MessageTrace
    from pyromq.admin.messages.traces import SendEvent as SendEvent
    from pyromq.admin.messages.traces import TraceEvent as TraceEvent
    from pyromq.admin.messages.traces import Traces as Traces
    from pyromq.admin.messages.traces import TransactionEvent as TransactionEvent
    from pyromq.admin.support.bundle import BundleReport as BundleReport
    from pyromq.admin.support.bundle import BundleSources as BundleSources
    from pyromq.admin.support.bundle import DebugBundle as DebugBundle
    from pyromq.admin.timed_messages import DelayHistogram as DelayHistogram
    from pyromq.admin.timed_messages import TimedMessage as TimedMessage
    from pyromq.admin.timed_messages import TimedMessages as TimedMessages
    from pyromq.admin.topics.deletion import TopicDeletion as TopicDeletion
    from pyromq.admin.topics.description import QueueContents as QueueContents
    from pyromq.admin.topics.description import TopicConsumer as TopicConsumer
    from pyromq.admin.topics.description import TopicDescription as TopicDescription
    from pyromq.admin.topics.description import TopicListing as TopicListing
    from pyromq.admin.topics.description import TopicSummary as TopicSummary
    from pyromq.admin.topics.resize import DrainingGroup as DrainingGroup
    from pyromq.admin.topics.resize import ResizePlan as ResizePlan
    from pyromq.admin.topics.resize import ResizeProgress as ResizeProgress
    from pyromq.admin.topics.topics import Topics as Topics
    from pyromq.admin.transactions import HalfMessage as HalfMessage
    from pyromq.admin.transactions import Transactions as Transactions

_HOMES = {
    "AdminClient": "admin_client",
    "BrokerCleaning": "maintenance.cleaning",
    "BrokerLoad": "health.overview",
    "BrokerStatus": "clusters",
    "BundleReport": "support.bundle",
    "BundleSources": "support.bundle",
    "CauseGroup": "letters.causes",
    "CheckLimits": "health.checks",
    "CheckReport": "health.checks",
    "CheckResult": "health.checks",
    "ClientListing": "clients",
    "Clients": "clients",
    "ClusterContext": "contexts",
    "ClusterStatus": "clusters",
    "ConnectedClient": "clients",
    "ConsumeEvent": "messages.traces",
    "ConsumptionState": "messages.consumption",
    "Contexts": "contexts",
    "DeadLetterTopic": "letters.dead_letters",
    "DeadLetters": "letters.dead_letters",
    "DebugBundle": "support.bundle",
    "DelayHistogram": "timed_messages",
    "DirectPlan": "messages.direct_consumption",
    "DirectResult": "messages.direct_consumption",
    "DoctorStep": "health.examination",
    "DrainingGroup": "topics.resize",
    "Examination": "health.examination",
    "GroupAdvice": "groups.advice",
    "GroupConsumption": "messages.consumption",
    "GroupDescription": "groups.description",
    "GroupListing": "groups.description",
    "GroupLoad": "health.overview",
    "GroupSummary": "groups.description",
    "Groups": "groups.groups",
    "HalfMessage": "transactions",
    "HeadMessage": "groups.description",
    "KeyValues": "maintenance.key_values",
    "KvListing": "maintenance.key_values",
    "KvSetting": "maintenance.key_values",
    "Letter": "letters.letter",
    "LevelLoad": "messages.level_loads",
    "LetterCauses": "letters.dead_letters",
    "Level": "health.checks",
    "Limit": "health.checks",
    "Member": "groups.description",
    "MemberLoad": "groups.advice",
    "MessageSearch": "messages.search",
    "MessageTrace": "messages.traces",
    "Messages": "messages.messages",
    "OffsetMove": "groups.offset_reset",
    "Opinion": "groups.description",
    "Overview": "health.overview",
    "PlannedChange": "maintenance.settings",
    "PromotionPlan": "clusters",
    "PropertyChange": "letters.tries",
    "QueueContents": "topics.description",
    "QueueProgress": "groups.description",
    "ResetPlan": "groups.offset_reset",
    "ResetTo": "groups.offset_reset",
    "ResizePlan": "topics.resize",
    "ResizeProgress": "topics.resize",
    "SearchBudget": "messages.search",
    "SearchStop": "messages.search",
    "SendEvent": "messages.traces",
    "ServerSettings": "maintenance.settings",
    "Setting": "maintenance.settings",
    "Settings": "maintenance.settings",
    "SettingsPlan": "maintenance.settings",
    "StepStatus": "health.examination",
    "TimeRange": "messages.search",
    "TimedMessage": "timed_messages",
    "TimedMessages": "timed_messages",
    "TopicConsumer": "topics.description",
    "TopicCount": "groups.description",
    "TopicDeletion": "topics.deletion",
    "TopicDescription": "topics.description",
    "TopicListing": "topics.description",
    "TopicLoad": "health.overview",
    "TopicSubscription": "groups.description",
    "TopicSummary": "topics.description",
    "Topics": "topics.topics",
    "TraceEvent": "messages.traces",
    "Traces": "messages.traces",
    "TransactionEvent": "messages.traces",
    "Transactions": "transactions",
    "Try": "letters.tries",
    "Wanted": "letters.letter",
    "WritePausePlan": "maintenance.write_pause",
    "WriteState": "maintenance.write_pause",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pyromq.admin' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.admin.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
