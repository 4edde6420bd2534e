"""Diagnosis: why a topic cannot be used. It checks name server → route → permission → broker address → port.

Its text becomes part of NoRoute and time-outs, so that they say which step failed, for which address, and what to do.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.name_servers import NameServers, reason_without
from pyromq.errors import (
    BrokerError,
    ConnectFailed,
    InvalidName,
    NoNameServer,
    NoRoute,
    PyroMQError,
    RemotingError,
)
from pyromq.protocol.bodies import BrokerData, TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PERM_READ, PERM_WRITE
from pyromq.protocol.names import DLQ_PREFIX, RETRY_PREFIX, TBW102, check_topic, is_system_topic

_STEP_TIMEOUT = 1.0
_NAME_SERVER_ADVICE = "start one, or correct namesrv="


class DiagnosisStep(NamedTuple):
    """One step: its name, whether it passed, what was found, and what to do if it failed."""

    name: str
    passed: bool
    seen: str
    advice: str = ""


async def diagnose(api: BrokerApi, topic: str) -> list[DiagnosisStep]:
    """Check the way to a topic over new connections; return the steps up to the first that failed."""
    async with api.on_new_connections() as fresh:  # the open ones may be what is wrong
        return await _walk(fresh, topic)


async def _walk(api: BrokerApi, topic: str) -> list[DiagnosisStep]:
    steps = [await _name_servers(api)]
    if steps[-1].passed:
        route, step = await _route(api, topic)
        steps.append(step)
        if route is not None:
            steps += _permissions(topic, route)
            steps += await asyncio.gather(*[_broker(api, topic, broker) for broker in route.broker_datas])
    return steps


def explain(steps: list[DiagnosisStep]) -> str:
    """Return the steps as one line: what passed, then what failed and what to do about it."""
    texts = []
    for step in steps:
        texts.append(f"{step.name}: {step.seen}" + (f" ({step.advice})" if step.advice and not step.passed else ""))
    return "; ".join(texts)


async def _name_servers(api: BrokerApi) -> DiagnosisStep:
    """Ask each of them: one that hangs or differs from the others can be what is wrong."""
    servers = api.name_servers
    try:
        if not servers.addresses:
            await servers.discover()
    except ConnectFailed as error:
        return DiagnosisStep("name server", False, str(error), _NAME_SERVER_ADVICE)
    seen = await asyncio.gather(*[_name_server(api, address) for address in servers.addresses])
    passed = any(answers for answers, _ in seen)
    return DiagnosisStep("name server", passed, ", ".join(text for _, text in seen), _NAME_SERVER_ADVICE)


async def _name_server(api: BrokerApi, address: str) -> tuple[bool, str]:
    """Return whether a name server answers, and the words for it."""
    try:
        await BrokerApi(api.remoting, NameServers(api.remoting, [address])).route(TBW102, timeout=_STEP_TIMEOUT)
    except NoNameServer as error:
        return False, str(error).removeprefix("no name server answers: ").removesuffix("; is one running there?")
    except BrokerError as error:
        return False, f"{address} answers {error}"
    except NoRoute:
        pass
    return True, f"{address} answers"


async def _route(api: BrokerApi, topic: str) -> tuple[TopicRouteData | None, DiagnosisStep]:
    try:
        route = await api.route(topic, timeout=_STEP_TIMEOUT)
    except NoRoute:
        return None, await _missing_route(api, topic)
    except PyroMQError as error:
        return None, DiagnosisStep("route", False, str(error))
    names = ", ".join(broker.broker_name for broker in route.broker_datas)
    return route, DiagnosisStep("route", True, f"{topic} is on {names}")


async def _missing_route(api: BrokerApi, topic: str) -> DiagnosisStep:
    try:
        brokers = await _broker_names(api)
    except PyroMQError as error:
        return DiagnosisStep("route", False, str(error))
    if not brokers:
        return DiagnosisStep(
            "route", False, "no broker is registered", "start a broker with this name server's address"
        )
    names = f"brokers {', '.join(brokers)}" if len(brokers) > 1 else f"broker {brokers[0]}"
    seen = f"the {names} {'do' if len(brokers) > 1 else 'does'} not have the topic {topic!r}"
    return DiagnosisStep("route", False, seen, await _advice(api, topic))


async def _advice(api: BrokerApi, topic: str) -> str:
    """Return how the topic comes into being."""
    if topic.startswith(DLQ_PREFIX):
        return "a broker makes it with the group's first dead letter: is the group's name right?"
    if topic.startswith(RETRY_PREFIX):
        return "a broker makes it when a consumer of the group starts: is the group's name right?"
    if is_system_topic(topic):
        return "brokers make it themselves, when they need it"
    try:
        check_topic(topic)
        await api.route(TBW102, timeout=_STEP_TIMEOUT)
    except InvalidName as error:
        return f"nobody can create it: {error}"
    except PyroMQError:
        return f"create the topic, or set autoCreateTopicEnable=true so that brokers make it from {TBW102}"
    return "the first message that is sent to it creates it"


async def _broker_names(api: BrokerApi) -> list[str]:
    cluster = await api.cluster_info(timeout=_STEP_TIMEOUT)
    return sorted(cluster.broker_addr_table)


def _permissions(topic: str, route: TopicRouteData) -> list[DiagnosisStep]:
    """Return a step for each broker where the topic may not be both read and written."""
    steps = []
    for data in route.queue_datas:
        missing = [word for bit, word in ((PERM_WRITE, "written"), (PERM_READ, "read")) if not data.perm & bit]
        if missing:
            seen = f"{topic} may not be {' or '.join(missing)} on {data.broker_name} (perm {data.perm})"
            steps.append(DiagnosisStep("permission", False, seen, "set the topic's perm to 6"))
    return steps


async def _broker(api: BrokerApi, topic: str, broker: BrokerData) -> DiagnosisStep:
    name = f"broker {broker.broker_name}"
    address = broker.broker_addrs.get(MASTER_ID)
    if address is None:
        return DiagnosisStep(name, False, "has no master now", "start its master, or wait until it has registered")
    try:
        await api.remoting.connection(address)
    except RemotingError as error:
        advice = "is the broker running, and is brokerIP1 an address that this machine can reach?"
        return DiagnosisStep(name, False, f"{address}: {reason_without(error, address)}", advice)
    try:
        await api.max_offset(address, topic, 0, timeout=_STEP_TIMEOUT)
    except RemotingError as error:
        return DiagnosisStep(
            name,
            False,
            f"{address} accepts connections, but: {reason_without(error, address)}",
            "is it overloaded, or no broker at all?",
        )
    except BrokerError:
        pass  # it answers
    return DiagnosisStep(name, True, f"{address} answers")
