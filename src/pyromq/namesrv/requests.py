"""The requests that a name server answers: one row for each code. See remoting/requests.py for what a row says.

A request writes if it changes routes or settings. `access` enforces the rights where `aclEnable` is true; a code
without a row needs admin.
"""

from __future__ import annotations

from typing import Final

from pyromq.namesrv.handlers import NameServerHandlers as Handlers
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import MAX_FRAME
from pyromq.protocol.headers import admin, routes
from pyromq.protocol.rights import Right
from pyromq.remoting.audit.audit_requests import AuditHandlers
from pyromq.remoting.requests import Cost, RequestTable
from pyromq.remoting.requests import RequestRow as Row

MAX_SETTINGS: Final = 64 * 1024

# fmt: off
REQUESTS: Final = RequestTable([
    # code, header, handler, right, writes, cost, bytes of the body; what it changes

    # brokers
    Row(Code.REGISTER_BROKER, routes.RegisterBrokerRequestHeader, Handlers.register_broker,
        Right.ADMIN, True, Cost.HEAVY, MAX_FRAME),
    Row(Code.UNREGISTER_BROKER, routes.UnregisterBrokerRequestHeader, Handlers.unregister_broker,
        Right.ADMIN, True, changes="routes",
        state=Handlers.route_state),
    Row(Code.QUERY_DATA_VERSION, routes.QueryDataVersionRequestHeader, Handlers.query_data_version, Right.ADMIN),
    Row(Code.WIPE_WRITE_PERM_OF_BROKER, routes.WipeWritePermOfBrokerRequestHeader, Handlers.wipe_write_permission,
        Right.ADMIN, True, changes="routes",
        state=Handlers.route_state),
    Row(Code.ADD_WRITE_PERM_OF_BROKER, routes.AddWritePermOfBrokerRequestHeader, Handlers.add_write_permission,
        Right.ADMIN, True, changes="routes",
        state=Handlers.route_state),
    Row(Code.GET_BROKER_CLUSTER_INFO, None, Handlers.get_cluster_info, Right.ACCOUNT_OR_ADMIN),

    # topics
    Row(Code.GET_ROUTEINFO_BY_TOPIC, routes.GetRouteInfoByTopicRequestHeader, Handlers.get_route, Right.ACCOUNT),
    Row(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, Handlers.get_all_topics,
        Right.ACCOUNT_OR_ADMIN, False, Cost.HEAVY),
    Row(Code.GET_TOPICS_BY_CLUSTER, routes.GetTopicsByClusterRequestHeader, Handlers.get_topics_by_cluster,
        Right.ACCOUNT_OR_ADMIN, False, Cost.HEAVY),
    Row(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, Handlers.get_system_topics, Right.ACCOUNT_OR_ADMIN),
    Row(Code.GET_UNIT_TOPIC_LIST, None, Handlers.get_unit_topics, Right.ACCOUNT_OR_ADMIN, False, Cost.HEAVY),
    Row(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, None, Handlers.get_topics_with_unit_subscription,
        Right.ACCOUNT_OR_ADMIN, False, Cost.HEAVY),
    Row(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, Handlers.get_plain_topics_with_unit_subscription,
        Right.ACCOUNT_OR_ADMIN, False, Cost.HEAVY),
    Row(Code.DELETE_TOPIC_IN_NAMESRV, routes.DeleteTopicInNamesrvRequestHeader, Handlers.delete_topic,
        Right.ADMIN, True, changes="routes",
        state=Handlers.route_state),

    # settings
    Row(Code.PUT_KV_CONFIG, routes.PutKvConfigRequestHeader, Handlers.put_kv,
        Right.ADMIN, True, Cost.HEAVY, changes="kv",
        state=Handlers.kv_state),
    Row(Code.GET_KV_CONFIG, routes.GetKvConfigRequestHeader, Handlers.get_kv, Right.ACCOUNT_OR_ADMIN),
    Row(Code.DELETE_KV_CONFIG, routes.DeleteKvConfigRequestHeader, Handlers.delete_kv,
        Right.ADMIN, True, Cost.HEAVY, changes="kv",
        state=Handlers.kv_state),
    Row(Code.GET_KVLIST_BY_NAMESPACE, routes.GetKvListByNamespaceRequestHeader, Handlers.get_kv_list,
        Right.ACCOUNT_OR_ADMIN),
    Row(Code.UPDATE_NAMESRV_CONFIG, None, Handlers.update_config,
        Right.ADMIN, True, Cost.HEAVY, MAX_SETTINGS, changes="configuration",
        state=Handlers.config_state),
    Row(Code.GET_NAMESRV_CONFIG, None, Handlers.get_config, Right.ADMIN),
    Row(Code.READ_AUDIT_LOG, admin.ReadAuditLogRequestHeader, AuditHandlers.newest, Right.ADMIN, False, Cost.HEAVY),
])
# fmt: on
