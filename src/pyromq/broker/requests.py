"""The requests that a broker answers: one row for each code. See remoting/requests.py for what a row says.

Dispatch, the refusal of writes by a broker that has no writing side, the fast port and the refusal while stopping are
all read from here. `access` enforces the rights where `aclEnable` is true; a code without a row needs admin.
"""

from __future__ import annotations

from typing import Final

from pyromq.broker.cleaning import StoreHandlers
from pyromq.broker.clients.client_requests import ClientHandlers
from pyromq.broker.delay.timer.timer_requests import TimerHandlers
from pyromq.broker.messages.reply import ReplyHandler
from pyromq.broker.messages.send import SendHandler
from pyromq.broker.messages.send_back import SendBackHandler
from pyromq.broker.pulls.message_query import QueryHandler
from pyromq.broker.pulls.offset_requests import OffsetHandlers
from pyromq.broker.pulls.pull import PullHandler
from pyromq.broker.pulls.pull_queues import PullQueuesHandler
from pyromq.broker.replication.handover.handover_requests import HandoverHandlers
from pyromq.broker.replication.replication_requests import ReplicationHandlers
from pyromq.broker.replication.tables.table_feed import TableFeed
from pyromq.broker.tools.account_admin import AccountHandlers
from pyromq.broker.tools.activity import ActivityHandlers
from pyromq.broker.tools.broker_admin import BrokerHandlers, StatsHandlers
from pyromq.broker.tools.consume_progress import ProgressHandlers
from pyromq.broker.tools.consumer_relay import RelayHandlers
from pyromq.broker.tools.group_admin import GroupHandlers
from pyromq.broker.tools.offset_resets import ResetHandlers
from pyromq.broker.tools.queue_entries import QueueHandlers
from pyromq.broker.tools.topic_admin import TopicHandlers
from pyromq.broker.transactions.transaction_requests import TransactionHandlers
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.headers import (
    accounts,
    admin,
    clients,
    offsets,
    pull,
    replication,
    send,
    timed_messages,
    transactions,
)
from pyromq.protocol.rights import Right
from pyromq.remoting.audit.audit_requests import AuditHandlers
from pyromq.remoting.requests import Cost, RequestTable
from pyromq.remoting.requests import RequestRow as Row

MAX_CLIENT_BODY: Final = 1024 * 1024  # 6,000 subscriptions, or as many queues with long names
MAX_SETTINGS: Final = 64 * 1024

# fmt: off
REQUESTS: Final = RequestTable([
    # code, header, handler, right, writes, cost, bytes of the body; reads=True if it reads messages; what it changes

    # messages
    Row(Code.SEND_MESSAGE, send.SendMessageRequestHeader, SendHandler.send, Right.PUB, True, Cost.SEND),
    Row(Code.SEND_MESSAGE_V2, send.SendMessageRequestHeaderV2, SendHandler.send, Right.PUB, True, Cost.SEND),
    Row(Code.SEND_BATCH_MESSAGE, send.SendMessageRequestHeaderV2, SendHandler.send, Right.PUB, True, Cost.SEND),
    Row(Code.SEND_REPLY_MESSAGE, send.SendMessageRequestHeader, ReplyHandler.reply, Right.REPLY, True, Cost.SEND),
    Row(Code.SEND_REPLY_MESSAGE_V2, send.SendMessageRequestHeaderV2, ReplyHandler.reply, Right.REPLY, True, Cost.SEND),
    Row(Code.CONSUMER_SEND_MSG_BACK, send.ConsumerSendMsgBackRequestHeader, SendBackHandler.send_back,
        Right.SEND_BACK, True, Cost.SEND, reads=True),

    # transactions
    Row(Code.END_TRANSACTION, transactions.EndTransactionRequestHeader, TransactionHandlers.end,
        Right.PUB_OF_HALF_MESSAGE, True, Cost.SEND, reads=True),
    Row(Code.RESUME_CHECK_HALF_MESSAGE, transactions.ResumeCheckHalfMessageRequestHeader, TransactionHandlers.resume,
        Right.ADMIN, True, Cost.HEAVY, changes="transactions"),
    Row(Code.LIST_TRANSACTIONS, transactions.ListTransactionsRequestHeader, TransactionHandlers.list_halves,
        Right.ADMIN, False, Cost.HEAVY),

    # the timer
    Row(Code.RECALL_MESSAGE, timed_messages.RecallMessageRequestHeader, TimerHandlers.cancel,
        Right.PUB_OF_TIMED_MESSAGE, True, Cost.HEAVY),
    Row(Code.LIST_TIMED_MESSAGES, timed_messages.ListTimedMessagesRequestHeader, TimerHandlers.list_waiting,
        Right.ADMIN, False, Cost.HEAVY),

    # pulls, and where queues begin and end
    Row(Code.PULL_MESSAGE, pull.PullMessageRequestHeader, PullHandler.pull, Right.SUB, False, Cost.PULL, reads=True),
    Row(Code.PULL_QUEUES, pull.PullQueuesRequestHeader, PullQueuesHandler.pull, Right.SUB, False, Cost.PULL,
        reads=True),
    Row(Code.QUERY_MESSAGE, pull.QueryMessageRequestHeader, QueryHandler.query, Right.SUB_TOPIC, False, Cost.HEAVY),
    Row(Code.VIEW_MESSAGE_BY_ID, pull.ViewMessageByIdRequestHeader, OffsetHandlers.view, Right.SUB_OF_MESSAGE,
        reads=True),
    Row(Code.QUERY_CONSUMER_OFFSET, offsets.QueryConsumerOffsetRequestHeader, OffsetHandlers.query, Right.SUB,
        reads=True),
    Row(Code.UPDATE_CONSUMER_OFFSET, offsets.UpdateConsumerOffsetRequestHeader, OffsetHandlers.update, Right.SUB),
    Row(Code.SEARCH_OFFSET_BY_TIMESTAMP, offsets.SearchOffsetByTimestampRequestHeader, OffsetHandlers.search,
        Right.PUB_OR_SUB, reads=True),
    Row(Code.GET_MAX_OFFSET, offsets.GetMaxOffsetRequestHeader, OffsetHandlers.maximum, Right.PUB_OR_SUB),
    Row(Code.GET_MIN_OFFSET, offsets.GetMinOffsetRequestHeader, OffsetHandlers.minimum, Right.PUB_OR_SUB),
    Row(Code.GET_EARLIEST_MSG_STORETIME, offsets.GetEarliestMsgStoretimeRequestHeader, OffsetHandlers.earliest_time,
        Right.PUB_OR_SUB, reads=True),
    Row(Code.GET_ALL_CONSUMER_OFFSET, admin.TablePartRequestHeader, OffsetHandlers.all_committed,
        Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GET_ALL_DELAY_OFFSET, None, OffsetHandlers.delay_progress, Right.ADMIN),

    # replication: what our own brokers ask each other
    Row(Code.REPLICATION_STATE, None, ReplicationHandlers.state, Right.ADMIN),
    Row(Code.TABLE_CHANGES, replication.TableChangesRequestHeader, TableFeed.changes, Right.ADMIN, False, Cost.PULL),
    Row(Code.PROMOTE_BROKER, replication.PromoteBrokerRequestHeader, HandoverHandlers.promote, Right.ADMIN, False,
        Cost.HEAVY, changes="roles",
        state=HandoverHandlers.state),
    Row(Code.STEP_DOWN, replication.StepDownRequestHeader, HandoverHandlers.step_down,
        Right.ADMIN, False, Cost.HEAVY, changes="roles",
        state=HandoverHandlers.state),
    Row(Code.READ_LOG, replication.ReadLogRequestHeader, ReplicationHandlers.read_log, Right.ADMIN),

    # clients; what they say is kept in memory, so it counts as no write
    Row(Code.HEART_BEAT, None, ClientHandlers.heartbeat, Right.MEMBERS, False, Cost.LIGHT, MAX_CLIENT_BODY),
    Row(Code.UNREGISTER_CLIENT, clients.UnregisterClientRequestHeader, ClientHandlers.unregister, Right.MEMBERS),
    Row(Code.CHECK_CLIENT_CONFIG, None, ClientHandlers.check, Right.SUB_OF_BODY, False, Cost.LIGHT, MAX_CLIENT_BODY),
    Row(Code.GET_CONSUMER_LIST_BY_GROUP, clients.GetConsumerListByGroupRequestHeader, ClientHandlers.consumer_list,
        Right.SUB),
    Row(Code.LOCK_BATCH_MQ, None, ClientHandlers.lock, Right.SUB_OF_BODY, False, Cost.LIGHT, MAX_CLIENT_BODY),
    Row(Code.UNLOCK_BATCH_MQ, None, ClientHandlers.unlock, Right.SUB_OF_BODY, False, Cost.LIGHT, MAX_CLIENT_BODY),

    # tools: the broker
    Row(Code.GET_BROKER_CONFIG, None, BrokerHandlers.settings, Right.ADMIN),
    Row(Code.UPDATE_BROKER_CONFIG, None, BrokerHandlers.change_settings,
        Right.ADMIN, True, Cost.HEAVY, MAX_SETTINGS, changes="configuration",
        state=BrokerHandlers.state),
    Row(Code.READ_AUDIT_LOG, admin.ReadAuditLogRequestHeader, AuditHandlers.newest, Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GET_BROKER_RUNTIME_INFO, None, BrokerHandlers.runtime_info, Right.ADMIN, reads=True),
    Row(Code.VIEW_BROKER_STATS_DATA, admin.ViewBrokerStatsDataRequestHeader, StatsHandlers.view, Right.ADMIN),
    Row(Code.TRIGGER_DELETE_FILES, None, None, Right.ADMIN, True),
    Row(Code.DELETE_EXPIRED_COMMITLOG, None, StoreHandlers.delete_expired_files,
        Right.ADMIN, True, Cost.HEAVY, changes="files"),
    Row(Code.CLEAN_EXPIRED_CONSUMEQUEUE, None, StoreHandlers.delete_expired_queues, Right.ADMIN, True, Cost.HEAVY,
        reads=True, changes="files"),
    Row(Code.CLEAN_UNUSED_TOPIC, None, StoreHandlers.delete_unused_topics,
        Right.ADMIN, True, Cost.HEAVY, changes="files"),
    Row(Code.PREVIEW_CLEANING, None, StoreHandlers.preview, Right.ADMIN, False, Cost.HEAVY, reads=True),

    # tools: accounts; each broker has its own
    Row(Code.UPDATE_AND_CREATE_ACL_CONFIG, accounts.UpdateAndCreateAclConfigRequestHeader, AccountHandlers.update,
        Right.ADMIN, False, Cost.HEAVY, changes="accounts",
        state=AccountHandlers.state),
    Row(Code.DELETE_ACL_CONFIG, accounts.DeleteAclConfigRequestHeader, AccountHandlers.remove,
        Right.ADMIN, False, Cost.HEAVY, changes="accounts",
        state=AccountHandlers.state),
    Row(Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, accounts.UpdateGlobalWhiteAddrsConfigRequestHeader,
        AccountHandlers.set_white_addresses, Right.ADMIN, False, Cost.HEAVY, changes="accounts",
        state=AccountHandlers.state),
    Row(Code.GET_BROKER_CLUSTER_ACL_INFO, None, AccountHandlers.version, Right.ADMIN),
    Row(Code.GET_BROKER_CLUSTER_ACL_CONFIG, None, AccountHandlers.list_all, Right.ADMIN),

    # tools: topics
    Row(Code.UPDATE_AND_CREATE_TOPIC, admin.UpdateAndCreateTopicRequestHeader, TopicHandlers.update,
        Right.ADMIN, True, Cost.HEAVY, changes="topics",
        state=TopicHandlers.state),
    Row(Code.DELETE_TOPIC_IN_BROKER, admin.DeleteTopicInBrokerRequestHeader, StoreHandlers.delete_topic,
        Right.ADMIN, True, Cost.HEAVY, changes="topics",
        state=TopicHandlers.state),
    Row(Code.GET_ALL_TOPIC_CONFIG, admin.TablePartRequestHeader, TopicHandlers.list_all,
        Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GET_TOPIC_STATS_INFO, admin.GetTopicStatsInfoRequestHeader, TopicHandlers.stats,
        Right.PUB_OR_SUB_OR_ADMIN, reads=True),
    Row(Code.QUERY_TOPIC_CONSUME_BY_WHO, admin.QueryTopicConsumeByWhoRequestHeader, TopicHandlers.consumed_by,
        Right.PUB_OR_SUB_OR_ADMIN),
    Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, TopicHandlers.system_topics, Right.ACCOUNT_OR_ADMIN),
    Row(Code.QUERY_CONSUME_QUEUE, admin.QueryConsumeQueueRequestHeader, QueueHandlers.entries,
        Right.PUB_OR_SUB_OR_ADMIN, False, Cost.HEAVY, reads=True),

    # tools: groups
    Row(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, GroupHandlers.update,
        Right.ADMIN, True, Cost.HEAVY, changes="groups",
        state=GroupHandlers.state),
    Row(Code.DELETE_SUBSCRIPTIONGROUP, admin.DeleteSubscriptionGroupRequestHeader, GroupHandlers.delete,
        Right.ADMIN, True, Cost.HEAVY, changes="groups",
        state=GroupHandlers.state),
    Row(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, admin.TablePartRequestHeader, GroupHandlers.list_all,
        Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GET_CONSUMER_CONNECTION_LIST, admin.GetConsumerConnectionListRequestHeader, GroupHandlers.consumers,
        Right.PUB_OR_SUB_OR_ADMIN),
    Row(Code.GET_PRODUCER_CONNECTION_LIST, admin.GetProducerConnectionListRequestHeader, GroupHandlers.producers,
        Right.PUB_OR_SUB_OR_ADMIN),
    Row(Code.GET_ALL_PRODUCER_INFO, None, GroupHandlers.all_producers, Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GET_CONSUME_STATS, admin.GetConsumeStatsRequestHeader, ProgressHandlers.of_group,
        Right.PUB_OR_SUB_OR_ADMIN, False, Cost.HEAVY, reads=True),
    Row(Code.GET_BROKER_CONSUME_STATS, admin.GetBrokerConsumeStatsRequestHeader, ProgressHandlers.of_all,
        Right.ADMIN, False, Cost.HEAVY),
    Row(Code.QUERY_CONSUME_TIME_SPAN, admin.QueryConsumeTimeSpanRequestHeader, ProgressHandlers.time_spans,
        Right.PUB_OR_SUB_OR_ADMIN, False, Cost.HEAVY, reads=True),

    # tools: all topics and all groups at once
    Row(Code.TOPIC_ACTIVITY, admin.TablePartRequestHeader, ActivityHandlers.of_topics, Right.ADMIN, False, Cost.HEAVY),
    Row(Code.GROUP_ACTIVITY, None, ActivityHandlers.of_groups, Right.ADMIN, False, Cost.HEAVY),

    # tools: offsets that are set, and what is asked of consumers
    Row(Code.INVOKE_BROKER_TO_RESET_OFFSET, admin.InvokeBrokerToResetOffsetRequestHeader, ResetHandlers.reset,
        Right.ADMIN, reads=True, changes="offsets",
        state=ResetHandlers.state),
    Row(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, admin.InvokeBrokerToGetConsumerStatusRequestHeader,
        ResetHandlers.status, Right.ADMIN, False, Cost.HEAVY),
    Row(Code.CLONE_GROUP_OFFSET, admin.CloneGroupOffsetRequestHeader, ResetHandlers.clone,
        Right.ADMIN, changes="offsets",
        state=ResetHandlers.state),
    Row(Code.QUERY_CORRECTION_OFFSET, admin.QueryCorrectionOffsetRequestHeader, ResetHandlers.correction, Right.ADMIN),
    Row(Code.GET_CONSUMER_RUNNING_INFO, clients.GetConsumerRunningInfoRequestHeader, RelayHandlers.running_info,
        Right.ADMIN, False, Cost.HEAVY),
    Row(Code.CONSUME_MESSAGE_DIRECTLY, clients.ConsumeMessageDirectlyRequestHeader, RelayHandlers.consume_directly,
        Right.ADMIN, False, Cost.HEAVY),
])
# fmt: on

CLIENT_BODIES: Final = REQUESTS.codes(lambda row: row.max_body == MAX_CLIENT_BODY)
"""Codes whose bodies are as large as `pyromqMaxClientBodyBytes` says."""
