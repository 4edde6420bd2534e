"""Sentences on what stands out in a profile; they come first on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from pyromq.pipelines.pages.page import Headline, Tone
from pyromq.pipelines.pages.wording import cut, listed, many, share, size, span, times, whole
from pyromq.pipelines.topic_profile.profile import Profile, QueueProfile, TopicProfile

_MOST = 10
_TOPICS = 8
_FEW_KEYS = 10
_LARGE_SHARE = 1 / 3
_MUCH = 4
"""How many times the mean justifies a sentence."""
_SLOW_MS = 1000
_FEW_MESSAGES = 20
"""With fewer messages, nothing is said about their distribution."""
_HEAVY = 0.05
_ORDER = {"warn": 0, "note": 1, "good": 2}
ALL_IS_WELL = Headline("good", "Nothing to worry about: keys and queues are in balance, and no group is behind.")


def headlines(profile: Profile, resent: Mapping[str, int] | None = None) -> list[Headline]:
    """Return the headlines, the worst first; at least one. `resent` counts the dead letters sent again, by group."""
    found = [*_groups(profile), *_failures(profile, resent or {}), *_traces(profile)]
    for topic in profile.topics[:_TOPICS]:
        if topic.messages >= _FEW_MESSAGES:
            found += [*_keys(topic), *_queues(topic), *_times(topic, profile), *_sizes(topic)]
    if not any(line.tone == "warn" for line in found):
        found.append(ALL_IS_WELL)
    return sorted(found, key=lambda line: _ORDER[line.tone])[:_MOST]


def _keys(topic: TopicProfile) -> Iterator[Headline]:
    taken = 0
    for number, key in enumerate(topic.keys[:_FEW_KEYS], 1):
        taken += key.messages
        if taken >= topic.messages * _LARGE_SHARE and topic.key_count > _MUCH * number:
            names = listed([f"“{cut(str(key.name), 30)}”" for key in topic.keys[:number]])
            make = "1 key makes" if number == 1 else f"{number} keys make"
            yield Headline("warn", f"{make} {share(taken, topic.messages)} of the messages of {topic.topic}: {names}.")
            break
    if topic.scattered_keys:
        part = share(topic.scattered_keys, topic.key_count)
        yield Headline("note", f"{part} of the keys of {topic.topic} lie in several queues: their order is not kept.")
    if 0 < topic.with_key < topic.messages:
        part = share(topic.messages - topic.with_key, topic.messages)
        yield Headline("note", f"{part} of the messages of {topic.topic} have no key.")


def _queues(topic: TopicProfile) -> Iterator[Headline]:
    empty = [topic.name_of(queue) for queue in topic.queues if not queue.messages and not queue.held]
    if empty:
        verb = "is" if len(empty) == 1 else "are"
        how_many = f"{len(empty)} of the {len(topic.queues)} queues of {topic.topic}"
        yield Headline("warn", f"{how_many} {verb} empty: {listed(empty)}.")
    mean = topic.messages / len(topic.queues)
    fullest = max(topic.queues, key=lambda queue: queue.messages)
    if len(topic.queues) > 1 and fullest.messages > 1.5 * mean:
        how_much = times(fullest.messages / mean)
        name = topic.name_of(fullest)
        yield Headline("warn", f"Queue {name} of {topic.topic} holds {how_much} an even share{_why(fullest)}.")


def _why(queue: QueueProfile) -> str:
    key = queue.hottest
    if key is None or key.messages <= queue.messages / 2:
        return ""
    return f"; {share(key.messages, queue.messages)} of it is the key “{cut(str(key.name), 30)}”"


def _times(topic: TopicProfile, profile: Profile) -> Iterator[Headline]:
    rates = sum((Counter(queue.rates) for queue in topic.queues), Counter[int]())
    steps = 1 + max(rates, default=0) - min(rates, default=0)
    peak, mean = max(rates.values(), default=0), topic.messages / steps
    if steps > _FEW_MESSAGES and peak >= _FEW_MESSAGES and peak > _MUCH * mean:
        busiest = f"The busiest {span(profile.width * 1000)} of {topic.topic}"
        yield Headline("note", f"{busiest} took {many(peak, 'message')}, {times(peak / mean)} the mean.")
    if topic.latencies_ms.p99 > _SLOW_MS:
        late = f"stored more than {span(topic.latencies_ms.p99)} after they were created"
        yield Headline("note", f"1 % of the messages of {topic.topic} were {late}.")
    if topic.early:
        count = many(topic.early, "message")
        yield Headline("note", f"{topic.topic}: {count} stored before they were created; the machines' clocks differ.")


def _sizes(topic: TopicProfile) -> Iterator[Headline]:
    """Yield a headline if a few large messages hold most of the bytes."""
    heavy = messages = 0
    for step in sorted(topic.size_steps, reverse=True):
        if messages + topic.size_steps[step].messages > _HEAVY * topic.messages:
            break
        messages += topic.size_steps[step].messages
        heavy += topic.size_steps[step].stored
    if heavy > topic.stored / 2:
        few, most = share(messages, topic.messages), share(heavy, topic.stored)
        largest = f"the largest body takes up {size(topic.sizes.most)}"
        yield Headline("note", f"{few} of the messages of {topic.topic} are {most} of its bytes; {largest}.")


def _groups(profile: Profile) -> Iterator[Headline]:
    lags = profile.lags
    sizes = {topic.topic: topic.messages for topic in profile.topics}
    for (group, topic), lag in sorted(lags.items(), key=lambda item: -item[1])[:3]:
        if lag:
            tone: Tone = "warn" if lag > sizes.get(topic, 0) / 10 else "note"
            yield Headline(tone, f"Group {group} is {many(lag, 'message')} behind in {topic}.")
    if lags and not any(lags.values()):
        yield Headline("good", f"No group is behind: {listed(sorted({group for group, _ in lags}))}.")


def _failures(profile: Profile, resent: Mapping[str, int]) -> Iterator[Headline]:
    dead = [failure for failure in profile.failures if failure.is_dead]
    for group in dict.fromkeys(failure.group for failure in dead):
        own = [failure for failure in dead if failure.group == group]
        total = sum(failure.messages for failure in own)
        cause = f", most often for this cause: {cut(own[0].cause, 80)}" if own[0].cause else ""
        if resent.get(group, 0) >= total:
            yield Headline("note", f"Group {group} had given up {many(total, 'message')}, all sent again since{cause}.")
        else:
            yield Headline("warn", f"Group {group} has given up {many(total, 'message')}{cause}.")
    again = [failure for failure in profile.failures if not failure.is_dead]
    if again:
        count = many(sum(failure.messages for failure in again), "delivery", "deliveries")
        yield Headline("note", f"{count} had to be repeated, for {listed(sorted({one.group for one in again}))}.")


def _traces(profile: Profile) -> Iterator[Headline]:
    if profile.ways:
        way = max(profile.ways, key=lambda way: way.p99)
        how_long = f"at most {span(way.p50)} for half of the messages, {span(way.p99)} for 99 %"
        yield Headline("note", f"From the send to a listener of {way.group} it takes {how_long} ({way.topic}).")
    for call in profile.calls:
        if call.failed:
            part = share(call.failed, call.messages)
            yield Headline("note", f"{part} of the {whole(call.messages)} calls of {call.group}'s listener failed.")
