"""Every command of mqadmin 4.9.8: how the tests call it, how its output is compared, and the page that lists them.

`python -m interop.mqadmin_table` prints docs/mqadmin.md.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Compare(Enum):
    """What must be equal on Apache's broker and ours, apart from times, ids and addresses."""

    LINES = "the same lines"
    SHAPE = "the same lines except for numbers"
    NAMES = "all names, with our own values"
    SOME_NAMES = "the settings that have an effect here"
    REFUSED = "refused, as by Apache's broker without access control"
    ENDLESS = "runs until it is stopped; the same lines"


class Use(NamedTuple):
    """One way to call a command; the test fills in names in braces."""

    options: str
    compare: Compare = Compare.LINES


class Row(NamedTuple):
    """One command; tests call them in this order, because later ones need what earlier ones created."""

    command: str
    uses: tuple[Use, ...]
    note: str = ""


_C = Compare

ROWS = (
    Row("clusterList", (Use(""), Use("-m", _C.SHAPE))),
    Row(
        "updateTopic",
        (Use("-c {cluster} -t made -r 6 -w 6"), Use("-b {b} -t made2 -r 3 -w 3 -p 4"), Use("-b {b} -t made3 -o true")),
    ),
    Row("updateTopicPerm", (Use("-t made -b {b} -p 4"), Use("-t made -c {cluster} -p 6"))),
    Row(
        "updateOrderConf",
        (Use("-t made -m put -v broker-a:4"), Use("-t made -m get"), Use("-t made -m delete")),
    ),
    Row("topicList", (Use(""), Use("-c"))),
    Row("topicRoute", (Use("-t orders"), Use("-t orders -l"))),
    Row("topicStatus", (Use("-t orders"),)),
    Row("topicClusterList", (Use("-t orders"),)),
    Row("allocateMQ", (Use("-t orders -i 10.0.0.1,10.0.0.2"),)),
    Row("updateSubGroup", (Use("-c {cluster} -g made"), Use("-b {b} -g made2 -r 5 -s false"))),
    Row("getConsumerConfig", (Use("-g made2"),)),
    Row("deleteSubGroup", (Use("-b {b} -g made2"), Use("-c {cluster} -g made -r true"))),
    Row("consumerProgress", (Use("-g billing"), Use("-g billing -s true"), Use("", _C.SHAPE))),
    Row("consumerStatus", (Use("-g billing"), Use("-g billing -s"))),
    Row("producerConnection", (Use("-g shop -t orders"),)),
    Row("producer", (Use("-b {b}"),)),
    Row("consumerConnection", (Use("-g billing"),)),
    Row("resetOffsetByTime", (Use("-g billing -t orders -s 0"), Use("-g offline -t orders -s now"))),
    Row("skipAccumulatedMessage", (Use("-g offline -t orders"),)),
    Row("cloneGroupOffset", (Use("-s offline -d cloned -t orders -o false"),)),
    Row(
        "brokerStatus",
        (Use("-b {b}", _C.NAMES), Use("-c {cluster}", _C.NAMES)),
        "sizes of thread pools are 0; every delay level is shown",
    ),
    Row("brokerConsumeStats", (Use("-b {b}"),)),
    Row(
        "getBrokerConfig",
        (Use("-b {b}", _C.SOME_NAMES),),
        "settings of Apache's broker without effect here are not listed; our own settings are",
    ),
    Row("updateBrokerConfig", (Use("-b {b} -k deleteWhen -v 05"),)),
    Row("cleanExpiredCQ", (Use("-b {b}"), Use("-c {cluster}"))),
    Row("cleanUnusedTopic", (Use("-b {b}"),)),
    Row("deleteExpiredCommitLog", (Use("-b {b}"),)),
    Row("sendMsgStatus", (Use("-b broker-a -s 10 -c 3"),)),
    Row("clusterRT", (Use("-a 2 -s 10 -i 1 -p false -c {cluster}", _C.ENDLESS),)),
    Row("updateKvConfig", (Use("-s space -k key -v value"),)),
    Row("deleteKvConfig", (Use("-s space -k key"),)),
    Row("wipeWritePerm", (Use("-b broker-a"),)),
    Row("addWritePerm", (Use("-b broker-a"),)),
    Row("getNamesrvConfig", (Use("", _C.SOME_NAMES),), "settings without effect here are not listed"),
    Row("updateNamesrvConfig", (Use("-k orderMessageEnable -v true"),)),
    Row("queryMsgById", (Use("-i {offset_id}"),), "remarks are worded differently"),
    Row("queryMsgByUniqueKey", (Use("-i {id} -t orders"),), "remarks are worded differently"),
    Row("queryMsgByKey", (Use("-t orders -k k-7"),)),
    Row("queryMsgByOffset", (Use("-t orders -b broker-a -i 1 -o 2"),), "remarks are worded differently"),
    Row("queryMsgTraceById", (Use("-i {traced}"),)),
    Row("printMsg", (Use("-t orders"),)),
    Row("printMsgByQueue", (Use("-t orders -a broker-a -i 0 -p true -f true"),)),
    Row("sendMessage", (Use("-t made -p hello -k key -c tag -b broker-a -i 1"), Use("-t orders -p hello", _C.SHAPE))),
    Row("consumeMessage", (Use("-t orders -b broker-a -i 0 -o 0 -c 1 -g readers", _C.SHAPE),)),
    Row("checkMsgSendRT", (Use("-t made -a 3 -s 10"),)),
    Row(
        "queryCq",
        (Use("-t orders -q 0 -i 0 -c 3 -b {b}", _C.SHAPE), Use("-t orders -q 0 -i 0 -c 3 -b {b} -g billing", _C.SHAPE)),
        "with -g, `eval` says whether the group gets the message; Apache's broker mostly says false",
    ),
    Row("statsAll", (Use("", _C.SHAPE), Use("-a -t orders", _C.SHAPE))),
    Row("exportMetadata", (Use("-c {cluster} -f {dir}"), Use("-b {b} -t -f {dir}"))),
    Row("exportConfigs", (Use("-c {cluster} -f {dir}"),)),
    Row("exportMetrics", (Use("-c {cluster} -f {dir}"),)),
    Row(
        "updateAclConfig",
        (Use("-b {b} -a user12345 -s secret12345", _C.REFUSED),),
        "needs `aclEnable=true`",
    ),
    Row(
        "deleteAclConfig",
        (Use("-b {b} -a user12345", _C.REFUSED),),
        "needs `aclEnable=true`",
    ),
    Row(
        "updateGlobalWhiteAddr",
        (Use("-b {b} -g 127.0.0.1", _C.REFUSED),),
        "needs `aclEnable=true`",
    ),
    Row(
        "clusterAclConfigVersion",
        (Use("-b {b}", _C.REFUSED),),
        "needs `aclEnable=true`",
    ),
    Row("startMonitoring", (Use("", _C.ENDLESS),)),
    Row("deleteTopic", (Use("-t made -c {cluster}"),)),
)

# What to run instead, below `pyromq`. Every row is here or in WITHOUT.
OURS = {
    "updateAclConfig": "acl add; acl set",
    "deleteAclConfig": "acl remove",
    "clusterList": "cluster status",
    "getBrokerConfig": "cluster config",
    "updateBrokerConfig": "cluster config set",
    "getNamesrvConfig": "cluster config --name-servers",
    "updateNamesrvConfig": "cluster config set --name-servers",
    "cleanExpiredCQ": "cluster clean --expired-queues",
    "cleanUnusedTopic": "cluster clean --unused-topics",
    "deleteExpiredCommitLog": "cluster clean --expired-files",
    "updateKvConfig": "cluster kv set",
    "deleteKvConfig": "cluster kv delete",
    "wipeWritePerm": "cluster pause-writes",
    "addWritePerm": "cluster resume-writes",
    "updateTopic": "topic create; topic set; topic resize",
    "updateTopicPerm": "topic set --perm",
    "updateOrderConf": "topic set --order; topic set --no-order; topic describe",
    "topicList": "topic list",
    "topicRoute": "topic describe",
    "topicStatus": "topic describe",
    "topicClusterList": "topic describe",
    "deleteTopic": "topic delete",
    "updateSubGroup": "group set",
    "getConsumerConfig": "group describe --json",
    "deleteSubGroup": "group delete",
    "consumerProgress": "group list; group describe",
    "consumerStatus": "group describe; group advise",
    "consumerConnection": "group describe",
    "resetOffsetByTime": "group reset --to",
    "skipAccumulatedMessage": "group reset --to latest",
    "cloneGroupOffset": "group clone",
    "brokerConsumeStats": "group list",
    "queryMsgById": "message show; message consume",
    "queryMsgByUniqueKey": "message find --id; message show",
    "queryMsgByKey": "message find --key",
    "queryMsgTraceById": "message trace",
    "printMsg": "tail --from earliest",
    "sendMessage": "send",
    "consumeMessage": "tail --group",
    "checkMsgSendRT": "bench send",
    "sendMsgStatus": "bench send",
    "clusterRT": "bench send",
    "allocateMQ": "group describe",
    "brokerStatus": "cluster status; top --view brokers; debug bundle",
    "statsAll": "top --once",
    "printMsgByQueue": "tail --from earliest",
    "exportMetadata": "topic list --all --json; group list --all --json",
    "exportConfigs": "cluster config --json",
    "exportMetrics": "top --once --json",
    "startMonitoring": "check",
    "producer": "cluster clients",
    "producerConnection": "cluster clients --group",
    "queryMsgByOffset": "message show --topic",
}

# Without a command of ours, and where to look instead.
WITHOUT = {
    "queryCq": "`pyromq store inspect` shows the queues of a store, `pyromq store verify` checks their entries",
    "updateGlobalWhiteAddr": "plain_acl.yml has `globalWhiteRemoteAddresses`, which are not trusted by default",
    "clusterAclConfigVersion": "`pyromq acl list` says which brokers have which rights",
}


def page() -> str:
    """Return docs/mqadmin.md."""
    lines = [
        "# mqadmin on PyroMQ",
        "",
        "`make interop` runs every command of Apache's `mqadmin` 4.9.8 against Apache's broker and ours. The table",
        "says what is equal in the output, apart from times, ids, addresses and the order of lines. Generated by",
        "`python -m interop.mqadmin_table`.",
        "",
        "| command | options | equal |",
        "| --- | --- | --- |",
    ]
    for row in ROWS:
        options = ", ".join(f"`{use.options}`" if use.options else "none" for use in row.uses)
        equal = "; ".join(dict.fromkeys(use.compare.value for use in row.uses))
        lines.append(f"| `{row.command}` | {options} | {equal} |")
    lines += ["", "Notes:", ""]
    lines += [f"- `{row.command}`: {row.note}." for row in ROWS if row.note]
    lines += ["", "## The same with `pyromq`", "", "| mqadmin | ours |", "| --- | --- |"]
    lines += [f"| `{row.command}` | {_ours(row.command)} |" for row in ROWS]
    return "\n".join(lines) + "\n"


def _ours(command: str) -> str:
    if command in WITHOUT:
        return f"none: {WITHOUT[command]}"
    return ", ".join(f"`pyromq {ours}`" for ours in OURS[command].split("; "))


if __name__ == "__main__":
    print(page(), end="")
