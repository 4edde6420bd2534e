"""The numbers of the protocol: request and response codes, languages, permissions and flag bits."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

RESPONSE_FLAG: Final = 1  # the frame is an answer
ONEWAY_FLAG: Final = 2  # the sender does not wait for an answer

VERSION: Final = 409  # we speak as release 4.9.8 does; release 4.m.p is 213 + 20·m + 2·p

MASTER_ID: Final = 0  # the broker id of a master; its slaves have ids from 1

PERM_INHERIT: Final = 1  # new topics are created from such a topic
PERM_WRITE: Final = 2
PERM_READ: Final = 4

# Bits of a topic's sys flag.
TOPIC_UNIT_FLAG: Final = 1
TOPIC_UNIT_SUBSCRIPTION_FLAG: Final = 2

# Bits of a pull's sys flag.
PULL_COMMIT_OFFSET_FLAG: Final = 1  # the request also commits an offset
PULL_SUSPEND_FLAG: Final = 2  # the broker may hold the request until a message arrives
PULL_SUBSCRIPTION_FLAG: Final = 4  # the request carries its subscription
PULL_LITE_FLAG: Final = 16
PULL_FORWARD_FLAG: Final = 1 << 16  # PyroMQ's own: commit it unless that moves back, or behind the queue's end


class RequestCode(IntEnum):
    """What a request asks for."""

    # client to broker
    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_BROKER_OFFSET = 13
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    GET_TOPIC_CONFIG_LIST = 22
    GET_TOPIC_NAME_LIST = 23
    UPDATE_BROKER_CONFIG = 25
    GET_BROKER_CONFIG = 26
    TRIGGER_DELETE_FILES = 27
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39  # broker to client
    NOTIFY_CONSUMER_IDS_CHANGED = 40  # broker to client
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ALL_DELAY_OFFSET = 45
    CHECK_CLIENT_CONFIG = 46
    UPDATE_AND_CREATE_ACL_CONFIG = 50
    DELETE_ACL_CONFIG = 51
    GET_BROKER_CLUSTER_ACL_INFO = 52
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53
    GET_BROKER_CLUSTER_ACL_CONFIG = 54

    # to a name server
    PUT_KV_CONFIG = 100
    GET_KV_CONFIG = 101
    DELETE_KV_CONFIG = 102
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106

    # administration
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    WIPE_WRITE_PERM_OF_BROKER = 205  # name server
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206  # name server
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    SUSPEND_CONSUMER = 209
    RESUME_CONSUMER = 210
    RESET_CONSUMER_OFFSET_IN_CONSUMER = 211
    RESET_CONSUMER_OFFSET_IN_BROKER = 212
    ADJUST_CONSUMER_THREAD_POOL = 213
    WHO_CONSUME_THE_MESSAGE = 214
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216  # name server
    GET_KVLIST_BY_NAMESPACE = 219  # name server
    RESET_CONSUMER_CLIENT_OFFSET = 220  # broker to client
    GET_CONSUMER_STATUS_FROM_CLIENT = 221  # broker to client
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223
    GET_TOPICS_BY_CLUSTER = 224  # name server
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    REGISTER_FILTER_SERVER = 301
    REGISTER_MESSAGE_FILTER_CLASS = 302
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304  # name server
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    CLEAN_EXPIRED_CONSUMEQUEUE = 306
    GET_CONSUMER_RUNNING_INFO = 307  # relayed by the broker to the client
    QUERY_CORRECTION_OFFSET = 308
    CONSUME_MESSAGE_DIRECTLY = 309  # relayed by the broker to the client
    SEND_MESSAGE_V2 = 310  # SEND_MESSAGE with one-letter field names
    GET_UNIT_TOPIC_LIST = 311  # name server
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312  # name server
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313  # name server
    CLONE_GROUP_OFFSET = 314
    VIEW_BROKER_STATS_DATA = 315
    CLEAN_UNUSED_TOPIC = 316
    GET_BROKER_CONSUME_STATS = 317
    UPDATE_NAMESRV_CONFIG = 318  # name server
    GET_NAMESRV_CONFIG = 319  # name server
    SEND_BATCH_MESSAGE = 320
    QUERY_CONSUME_QUEUE = 321
    QUERY_DATA_VERSION = 322  # broker to name server
    RESUME_CHECK_HALF_MESSAGE = 323
    SEND_REPLY_MESSAGE = 324
    SEND_REPLY_MESSAGE_V2 = 325
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326  # broker to client
    ADD_WRITE_PERM_OF_BROKER = 327  # name server
    GET_ALL_PRODUCER_INFO = 328  # since 4.9.4
    DELETE_EXPIRED_COMMITLOG = 329  # since 4.9.4
    RECALL_MESSAGE = 370  # RocketMQ 5

    # PyroMQ's own
    LIST_TIMED_MESSAGES = 30001
    LIST_TRANSACTIONS = 30010
    PULL_QUEUES = 30020
    REPLICATION_STATE = 30030  # broker to broker
    READ_LOG = 30031  # broker to broker
    TABLE_CHANGES = 30032  # broker to broker
    PROMOTE_BROKER = 30033  # operator to slave
    STEP_DOWN = 30034  # broker to broker
    PREVIEW_CLEANING = 30040
    TOPIC_ACTIVITY = 30050
    GROUP_ACTIVITY = 30051
    READ_AUDIT_LOG = 30060  # name server and broker


class ResponseCode(IntEnum):
    """How a request ended."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4

    # a send: 10 to 12 mean stored, but not as safely as asked
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18

    # a pull or a query
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28

    TRANSACTION_SHOULD_COMMIT = 200
    TRANSACTION_SHOULD_ROLLBACK = 201
    TRANSACTION_STATE_UNKNOW = 202
    TRANSACTION_STATE_GROUP_WRONG = 203
    NO_BUYER_ID = 204
    NOT_IN_CURRENT_UNIT = 205
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209
    DELETE_ACL_CONFIG_FAILED = 210
    UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211
    FLOW_CONTROL = 215  # consumers know it since 4.9.5; no 4.9 broker sends it
    ILLEGAL_OPERATION = 604  # RocketMQ 5: the message to recall is not waiting


class LanguageCode(IntEnum):
    """The language of the sender: a name in JSON headers, a number in binary ones."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12  # since 4.9.4
