"""What administrators ask about topics and do to them."""

from __future__ import annotations

from pyromq.broker.parts import Parts
from pyromq.broker.stats.group_lag import stored_at
from pyromq.broker.tables.table_followers import CHANGE_PATIENCE
from pyromq.broker.tools.consume_progress import QUEUES_A_STEP
from pyromq.errors import BrokerError, LocalProtocolError, ServiceNotAvailable
from pyromq.protocol.bodies import (
    GroupList,
    TopicConfig,
    TopicFilterType,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    encode,
)
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import (
    GetTopicStatsInfoRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    UpdateAndCreateTopicRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import check_topic
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps

MAX_PERMISSION = 7


class TopicHandlers:
    """Creates and describes topics."""

    def __init__(self, parts: Parts) -> None:
        self._broker_name = parts.name
        self._store = parts.store
        self._topics = parts.topics
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._register = parts.register
        self._followers = parts.followers

    async def update(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Create a topic or change it; answer when it is saved, and the slaves and the name servers know."""
        header = request.header(UpdateAndCreateTopicRequestHeader)
        self._check(header)
        self._topics.update(
            TopicConfig(
                topic_name=header.topic,
                read_queue_nums=header.read_queue_nums,
                write_queue_nums=header.write_queue_nums,
                perm=header.perm,
                topic_filter_type=TopicFilterType(header.topic_filter_type),
                topic_sys_flag=header.topic_sys_flag or 0,
            )
        )
        if not await self._topics.saver.finish():
            raise ServiceNotAvailable("the table of topics could not be saved")
        await self._followers.spread(CHANGE_PATIENCE, f"topic {header.topic}")
        await self._register()
        return response(request)

    def state(self, request: RemotingCommand) -> TopicConfig | None:
        """Return the settings of the topic that a request names, for the audit log."""
        topic = self._topics.get(request.ext_fields.get("topic", ""))
        return None if topic is None else topic.config

    def list_all(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return all topics of this broker, or a part of them."""
        return self._topics.parts.answer(request)

    def stats(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return where each write queue of a topic begins and ends."""
        topic = self._topics.find(request.header(GetTopicStatsInfoRequestHeader).topic)
        table: dict[MessageQueue, TopicOffset] = {}
        for queue_id in range(topic.write_queues):
            table[MessageQueue(topic.name, self._broker_name, queue_id)] = self._ends(topic.name, queue_id)
            if queue_id % QUEUES_A_STEP == 0:
                yield
        body = yield from encoding(TopicStatsTable(offset_table=table))
        return response(request, body=body)

    def consumed_by(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the groups that consume a topic, or once did."""
        topic = request.header(QueryTopicConsumeByWhoRequestHeader).topic
        online = {name for name, group in self._clients.consumers.items() if topic in group.subscriptions}
        groups = sorted(online | set(self._offsets.groups_of(topic)))
        return response(request, body=encode(GroupList(group_list=groups)))

    def system_topics(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the topics that this broker made by itself."""
        return response(request, body=encode(TopicList(topic_list=self._topics.system_names())))

    def _ends(self, topic: str, queue_id: int) -> TopicOffset:
        high = max(self._store.max_offset(topic, queue_id), 0)
        return TopicOffset(
            min_offset=max(self._store.min_offset(topic, queue_id), 0),
            max_offset=high,
            last_update_timestamp=max(stored_at(self._store, topic, queue_id, high - 1), 0),
        )

    def _check(self, header: UpdateAndCreateTopicRequestHeader) -> None:
        try:
            check_topic(header.topic)
        except LocalProtocolError as error:
            raise BrokerError(str(error)) from None
        if self._topics.is_system(header.topic):
            raise BrokerError(f"topic {header.topic} is the broker's own and cannot be changed")
        known = self._topics.get(header.topic)
        most = max(self._topics.max_queues, known.queues if known else 0)  # one that has more may keep them
        if not all(0 <= count <= most for count in (header.read_queue_nums, header.write_queue_nums)):
            text = f"a topic has 0 to {most} queues (pyromqMaxQueuesPerTopic)"
            raise BrokerError(text, limit="pyromqMaxQueuesPerTopic")
        if not 0 <= header.perm <= MAX_PERMISSION:
            raise BrokerError(f"permission {header.perm} is not a sum of 4 (read), 2 (write) and 1 (inherit)")
