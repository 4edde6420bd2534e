"""One topic: what its queues hold and who consumes them; change, resize and delete it; send to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pyromq.admin.messages.search import SearchBudget
from pyromq.admin.topics.description import QueueContents, TopicDescription
from pyromq.admin.topics.resize import ResizeProgress
from pyromq.console.jobs import ConsoleJob
from pyromq.console.login.roles import UserRole
from pyromq.console.screens.topic_sample import sample_of
from pyromq.console.web.failures import FormError, NotFound
from pyromq.console.web.route import Route
from pyromq.console.web.urls import topic_url
from pyromq.console.web.visit import Visit
from pyromq.errors import NoRoute
from pyromq.protocol.codes import PERM_READ, PERM_WRITE
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.names import MAX_QUEUES, NO_SEND_TOPICS, is_system_topic

SAMPLE: Final = SearchBudget(messages=500, seconds=3.0)
LEVELS: Final = DEFAULT_DELAY_LEVELS.split()
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}


class QueueRow(Struct, frozen=True):
    """A queue on the page."""

    contents: QueueContents
    share: float
    """Of the messages of the fullest queue."""
    size: float | None
    """About how many bytes it holds, by the mean size of messages."""
    rate: float | None
    """Messages a second; None until the page has read the queue twice."""


async def topic(visit: Visit) -> Response:
    """Show what a topic holds and who consumes it."""
    name = visit.path["topic"]
    found = await _describe(visit, name)
    row = visit.snapshot.topics.get(name)
    long = visit.query.get("span") == "long"
    return await visit.render(
        "topic.html",
        tab="queues",
        topic=name,
        found=found,
        row=row,
        queues=_queue_rows(found, None if row is None else row.average_bytes, _rates(visit, found)),
        skew=_skew(found),
        long=long,
        rate=visit.history.points(f"topic/{name}/in", long=long),
        job=visit.jobs.get(f"resize {name}"),
        acts=_acts(visit, found),
    )


async def settings(visit: Visit) -> Response:
    """Show the settings of a topic on each broker, and its route."""
    name = visit.path["topic"]
    found = await _describe(visit, name)
    route = await visit.admin.api.route(name)
    addresses = {data.broker_name: data.broker_addrs for data in route.broker_datas}
    return await visit.render(
        "topic_settings.html", tab="settings", topic=name, found=found, addresses=addresses, acts=_acts(visit, found)
    )


async def sample(visit: Visit) -> Response:
    """Show the commonest keys and tags of the newest messages."""
    name = visit.path["topic"]
    search = visit.admin.messages.find(name, budget=SAMPLE)
    return await visit.render("topic_sample.html", sample=sample_of([visit.bodies.seen(m) async for m in search]))


# --- changes


async def change(visit: Visit) -> Response:
    """Change what a topic allows, and whether it is ordered."""
    name = visit.path["topic"]
    perm, order = visit.form.text("perm"), visit.form.flag("order")
    before = {broker: data.perm for broker, data in (await _describe(visit, name)).settings.items()}
    visit.describe("change topic", name, before={"perm": before}, after={"perm": perm, "order": order})
    await visit.admin.topics.set(name, perm=perm, order=order)
    return visit.redirect(topic_url(name, "settings"), visit.t("Changed {topic}.", topic=name))


async def resize(visit: Visit) -> Response:
    """Give a topic another number of queues; its page shows how far that is."""
    name = visit.path["topic"]
    queues = visit.form.number("queues", least=1, most=MAX_QUEUES)
    ignored = visit.form.texts("ignore")
    plan = await visit.admin.topics.plan_resize(name, queues, ignore_groups=ignored)
    before = {broker: config.read_queue_nums for broker, config in plan.settings.items()}
    visit.describe("resize topic", name, before=before, after=queues)
    if plan.is_done:
        raise FormError(visit.t("{topic} has {count} queues on each broker already.", topic=name, count=queues))
    admin, reader = visit.admin, visit.parts.reader

    async def work(job: ConsoleJob) -> None:
        job.progress = ResizeProgress(topic=name, queues=queues, phase="write", leaving=len(plan.leaving))
        async for progress in admin.topics.resize(name, queues, ignore_groups=ignored):
            job.progress = progress
        reader.expire()

    visit.jobs.start(f"resize {name}", visit.user.name, work)
    return visit.redirect(topic_url(name), visit.t("Resizing {topic} to {count} queues.", topic=name, count=queues))


async def stop_resize(visit: Visit) -> Response:
    """Stop a resize; the topic is sound, and another one goes on from there."""
    name = visit.path["topic"]
    visit.describe("stop resize", name)
    visit.jobs.stop(f"resize {name}")
    return visit.redirect(topic_url(name), visit.t("Stopped. The topic is sound; resize it again to go on."), "warn")


async def show_deletion(visit: Visit) -> Response:
    """Show what would go with a topic."""
    plan = await visit.admin.topics.plan_delete(visit.path["topic"])
    return await visit.render("topic_deletion.html", plan=plan)


async def delete(visit: Visit) -> Response:
    """Delete a topic; its name has to be typed."""
    name = visit.path["topic"]
    if visit.form.text("confirm") != name:
        raise FormError(visit.t("Type {name} to confirm", name=name))
    visit.describe("delete topic", name)
    gone = await visit.admin.topics.delete(name)
    visit.describe("delete topic", name, before={"messages": gone.messages, "queues": gone.queues})
    notice = visit.t("Deleted {topic} with {count} messages.", topic=name, count=f"{gone.messages:,}")
    return visit.redirect("/topics", notice)


async def send(visit: Visit) -> Response:
    """Send a message."""
    name, form = visit.path["topic"], visit.form
    body = form.raw("body").encode()
    if not body:
        raise FormError(visit.t("A message needs a body."))
    keys, tags = form.text("keys").split(), form.text("tags") or None
    visit.describe("send message", name, after={"keys": keys, "tags": tags, "bytes": len(body)})
    message = Message(
        topic=name, body=body, tags=tags, keys=keys, properties=_properties(visit, form.raw("properties"))
    )
    producer = await visit.admin.producer()
    level = form.number("level", 0, least=0, most=len(LEVELS))
    result = await producer.send(
        message,
        delay=_delay(visit),
        level=level or None,
        order_key=form.text("order_key") or None,
    )
    text = visit.t("Sent {id} to queue {queue}.", id=result.message_id, queue=result.queue.queue_id)
    return visit.redirect(topic_url(name), text)


def _delay(visit: Visit) -> float | None:
    text = visit.form.text("delay")
    if not text:
        return None
    try:
        seconds = float(text) * _UNITS[visit.form.text("delay_unit", "s")]
    except (ValueError, KeyError):
        raise FormError(visit.t("The delay must be a number.")) from None
    if seconds <= 0:
        return None
    if why := visit.unavailable("any_delay"):
        raise FormError(why)
    return seconds


def _properties(visit: Visit, text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, mark, value = line.partition("=")
        if not line.strip():
            continue
        if not mark or not name.strip():
            raise FormError(visit.t("A property is a line such as name=value, not {line}.", line=line))
        found[name.strip()] = value.strip()
    return found


# --- what is shown


async def _describe(visit: Visit, name: str) -> TopicDescription:
    if not visit.user.sees_topic(name):
        raise NotFound(visit.t("No broker has the topic {topic}.", topic=name))
    try:
        return await visit.admin.topics.describe(name)
    except NoRoute:
        raise NotFound(visit.t("No broker has the topic {topic}.", topic=name)) from None


def _rates(visit: Visit, found: TopicDescription) -> dict[MessageQueue, float]:
    return visit.parts.queue_rates.read(found.topic, {each.queue: each.max_offset for each in found.queues})


def _queue_rows(found: TopicDescription, average: float | None, rates: Mapping[MessageQueue, float]) -> list[QueueRow]:
    most = max((queue.messages for queue in found.queues), default=0) or 1
    return [
        QueueRow(
            each,
            share=each.messages / most,
            size=None if average is None else each.messages * average,
            rate=rates.get(each.queue),
        )
        for each in sorted(found.queues, key=lambda each: each.queue)
    ]


def _skew(found: TopicDescription) -> float | None:
    """Return how many times the mean the fullest queue holds; None if too little is there to tell."""
    counts = [queue.messages for queue in found.queues]
    total = sum(counts)
    return max(counts) * len(counts) / total if len(counts) > 1 and total >= 20 * len(counts) else None


def _acts(visit: Visit, found: TopicDescription) -> dict[str, object]:
    """Return what the buttons of a topic need: why they are greyed out, and their fields."""
    perms = {data.perm for data in found.settings.values()}
    reads, writes = (all(perm & bit for perm in perms) for bit in (PERM_READ, PERM_WRITE))
    own = visit.t("This is one of RocketMQ's own topics.") if is_system_topic(found.topic) else ""
    no_sends = visit.t("Brokers take no messages of clients for this topic.")
    return {
        "own": own,
        "no_send": (no_sends if found.topic in NO_SEND_TOPICS else "")
        or ("" if writes else visit.t("The topic allows no sending.")),
        "no_delay": visit.unavailable("any_delay"),
        "perm": ("r" if reads else "") + ("w" if writes else ""),
        "queues": max((data.read_queue_nums for data in found.settings.values()), default=8),
        "levels": LEVELS,
    }


ROUTES: Final = (
    Route("GET", "/topics/{topic}", UserRole.VIEWER_WITHOUT_BODIES, topic, live=True),
    Route("GET", "/topics/{topic}/settings", UserRole.VIEWER_WITHOUT_BODIES, settings),
    Route("GET", "/topics/{topic}/sample", UserRole.VIEWER, sample),
    Route("POST", "/topics/{topic}/settings", UserRole.OPERATOR, change),
    Route("POST", "/topics/{topic}/resize", UserRole.OPERATOR, resize),
    Route("POST", "/topics/{topic}/resize/stop", UserRole.OPERATOR, stop_resize),
    Route("GET", "/topics/{topic}/delete", UserRole.OPERATOR, show_deletion),
    Route("POST", "/topics/{topic}/delete", UserRole.OPERATOR, delete),
    Route("POST", "/topics/{topic}/send", UserRole.OPERATOR, send),
)
