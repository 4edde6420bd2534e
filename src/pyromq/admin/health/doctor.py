"""The doctor: walks from the name servers to a stored test message, and says which step fails and what to do."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

from pyromq.admin.clusters import BrokerStatus, Clusters, ClusterStatus
from pyromq.admin.health.examination import DoctorStep, Examination, StepStatus, graded
from pyromq.admin.health.machine import (
    DISK_FAILED,
    DISK_WARNING,
    disk_advice,
    is_local,
    machine_steps,
)
from pyromq.admin.health.overview import Overview, Overviews
from pyromq.client.consume.start_from import plain_pull
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.diagnosis import DiagnosisStep, diagnose
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import BENCHMARK_TOPIC, TOOLS_CONSUMER_GROUP
from pyromq.protocol.release import release

TEST_TOPIC = BENCHMARK_TOPIC
"""Every broker has it, RocketMQ's too, and no application reads it."""
CLOCK_WARNING = 0.5
CLOCK_FAILED = 5.0
"""Seconds by which clocks may differ."""

_PATIENCE = 5.0
_READS = 20
_BODY = b"pyromq doctor: a test message"


class Doctor:
    """Examines a cluster and this machine."""

    def __init__(
        self,
        api: BrokerApi,
        clusters: Clusters,
        overviews: Overviews,
        producer: Callable[[], Awaitable[Producer]],
        clock: Clock,
    ) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)
        self._clusters = clusters
        self._overviews = overviews
        self._producer = producer
        self._clock = clock

    async def examine(
        self, topic: str | None = None, *, send: bool = True, send_to_topic: bool = False, data: Path | None = None
    ) -> Examination:
        """Walk to a topic, send test messages, then look at this machine; see `AdminClient.examine`."""
        walk = await diagnose(self._api, topic or TEST_TOPIC)
        steps = list(_walked(walk, topic or TEST_TOPIC))
        if not walk[0].passed:
            steps += [DoctorStep(name, StepStatus.SKIPPED, "no name server answers") for name in _NEED_A_CLUSTER]
            return Examination((*steps, *machine_steps(_directories(data, ()))))
        try:
            status = await self._clusters.status()
        except PyroMQError as error:
            steps.append(
                DoctorStep("cluster", StepStatus.FAILED, str(error), "does the account have the right to ask?")
            )
            return Examination((*steps, *machine_steps(_directories(data, ()))))
        steps += self._findings(status)
        masters = [one for one in status.brokers if one.leads]
        steps += await self._test_messages(masters, topic if send_to_topic else None) if send else [_NOT_SENT]
        steps += await self._overview_steps()
        steps += _versions(status)
        stores = await self._local_stores(masters)
        return Examination((*steps, *machine_steps(_directories(data, stores))))

    @staticmethod
    def _findings(status: ClusterStatus) -> Iterator[DoctorStep]:
        """Yield what brokers say is wrong with them, then what is wrong between them."""
        told = [(one, problem) for one in status.brokers for problem in one.problems]
        for one, problem in told:
            state = StepStatus.FAILED if problem.stops_messages else StepStatus.WARNING
            yield DoctorStep(f"health of {one.name}", state, problem.text, problem.advice)
        for finding in status.findings:
            if not any(problem.text in finding for _, problem in told):
                advice = "`pyromq cluster status` shows all brokers"
                yield DoctorStep("cluster", StepStatus.WARNING, finding, advice)

    # --- test messages

    async def _test_messages(self, masters: list[BrokerStatus], topic: str | None) -> list[DoctorStep]:
        name = topic or TEST_TOPIC
        try:
            route = await self._api.route(name)
        except PyroMQError as error:
            return [DoctorStep("test message", StepStatus.FAILED, f"{name}: {error}", "see the steps above")]
        places = {data.broker_name for data in route.queue_datas}
        chosen = [one for one in masters if one.name in places]
        return list(await asyncio.gather(*[self._test_message(one, name) for one in chosen]))

    async def _test_message(self, broker: BrokerStatus, topic: str) -> DoctorStep:
        name = f"test message to {broker.name}"
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(_PATIENCE):
                producer = await self._producer()
                message = Message(topic=topic, body=_BODY, tags="doctor")
                sent = await producer.send(message, queue=MessageQueue(topic, broker.name, 0))
                was_read = await self._is_readable(broker.address, sent)
        except TimeoutError:
            return DoctorStep(name, StepStatus.FAILED, f"no answer within {_PATIENCE:g} s", "is the broker overloaded?")
        except BrokerError as error:
            return DoctorStep(name, StepStatus.FAILED, error.remark or str(error), _advice_about(error))
        except PyroMQError as error:
            return DoctorStep(name, StepStatus.FAILED, str(error), "see the steps above")
        seen = f"{sent.status} in {topic} after {(self._clock.monotonic() - began) * 1000:.0f} ms"
        if not was_read:
            advice = "consumers do not see it: is a slave missing that the broker waits for?"
            return DoctorStep(name, StepStatus.FAILED, f"{seen}, but it cannot be read", advice)
        if sent.status != "SEND_OK":
            advice = "it is stored, but not as safely as configured: look at the slaves and the disk"
            return DoctorStep(name, StepStatus.WARNING, f"{seen}, and read back", advice)
        return DoctorStep(name, StepStatus.OK, f"{seen}, and read back")

    async def _is_readable(self, address: str, sent: SendResult) -> bool:
        header = plain_pull(TOOLS_CONSUMER_GROUP, sent.queue.topic, sent.queue.queue_id, sent.queue_offset, most=1)
        for _ in range(_READS):  # it is visible once its slaves have it, if the broker waits for them
            answer = await self._api.pull(address, header, timeout=_PATIENCE)
            if any(found.queue_offset == sent.queue_offset for found in decode_messages(answer.body)):
                return True
            await self._clock.sleep(_PATIENCE / _READS / 5)
        return False

    # --- what brokers say about themselves

    async def _overview_steps(self) -> list[DoctorStep]:
        try:
            overview = await self._overviews.take()
        except PyroMQError as error:
            return [DoctorStep("clock", StepStatus.SKIPPED, f"brokers do not tell: {error}")]
        return [_clocks(overview.clock_differences), *_disks(overview)]

    async def _local_stores(self, masters: list[BrokerStatus]) -> list[Path]:
        """Return the store directories of brokers that run on this machine."""
        found = []
        for one in masters:
            if is_local(one.address.rpartition(":")[0].strip("[]")):
                try:
                    path = (await self._calls.broker_config(one.address)).get("storePathRootDir")
                except PyroMQError:
                    continue
                found += [Path(path)] if path else []
        return found


_NEED_A_CLUSTER = ("route", "test message", "clock", "versions")
_NOT_SENT = DoctorStep("test message", StepStatus.SKIPPED, "not wanted (--no-send)")


def _walked(walk: list[DiagnosisStep], topic: str) -> Iterator[DoctorStep]:
    """Yield the steps of the walk, with the permissions where all of them are well."""
    for step in walk:
        status = StepStatus.OK if step.passed else StepStatus.FAILED
        yield DoctorStep(step.name, status, step.seen, "" if step.passed else step.advice)
        if step.name == "route" and step.passed and not any(other.name == "permission" for other in walk):
            yield DoctorStep("permission", StepStatus.OK, f"{topic} may be read and written")


def _advice_about(error: BrokerError) -> str:
    text = str(error).lower()
    if "disk" in text or "full" in text:
        return disk_advice()
    return "look at the broker's log, and at `pyromq cluster status`"


def _clocks(differences: Mapping[str, float]) -> DoctorStep:
    if not differences:
        return DoctorStep("clock", StepStatus.SKIPPED, "no broker tells its time")
    name, worst = max(differences.items(), key=lambda item: abs(item[1]))
    direction = "ahead of" if worst > 0 else "behind"
    seen = (
        f"{name} is {abs(worst):.1f} s {direction} this machine"
        if abs(worst) >= 0.05
        else "the same here and on all brokers"
    )
    return graded(
        "clock",
        abs(worst),
        CLOCK_WARNING,
        CLOCK_FAILED,
        seen,
        "set both by NTP: delays, lag in seconds and searches by time are wrong by that",
    )


def _disks(overview: Overview) -> Iterator[DoctorStep]:
    for broker in overview.brokers:
        if broker.disk_percent is not None:
            seen = f"{broker.disk_percent:g}% used"
            name = f"disk of {broker.name}"
            yield graded(name, broker.disk_percent, DISK_WARNING, DISK_FAILED, seen, disk_advice())


def _versions(status: ClusterStatus) -> Iterator[DoctorStep]:
    ours = f"PyroMQ {release()}"
    servers = sorted({f"{one.name} {one.version}" for one in status.brokers if one.version})
    seen = "; ".join([f"client {ours}, Python {platform.python_version()}, {platform.platform()}", *servers])
    others = {one.version for one in status.brokers if one.version.startswith("PyroMQ ")} - {ours}
    if others:
        advice = "upgrade broker by broker, then the clients"
        yield DoctorStep("versions", StepStatus.WARNING, seen, advice)
    else:
        yield DoctorStep("versions", StepStatus.OK, seen)


def _directories(data: Path | None, stores: list[Path] | tuple[Path, ...]) -> list[Path]:
    """Return the directories to look at: the given one, those of local brokers, or the default of `pyromq up`."""
    if data is not None:
        return [data]
    return list(dict.fromkeys(stores)) or [Path("pyromq-data")]
