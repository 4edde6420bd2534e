"""The page of a report says what stands out, and nothing that is wrong."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyromq.pipelines.topic_profile.headlines import ALL_IS_WELL, headlines
from pyromq.pipelines.topic_profile.profile import (
    Failure,
    NameCount,
    Percentiles,
    Profile,
    QueueProfile,
    Timing,
    TopicProfile,
    Weight,
)
from pyromq.pipelines.topic_profile.report_page import render
from pyromq.pipelines.topic_profile.survey import GroupProgress
from pyromq.pipelines.topic_profile.topic_section import merged
from pyromq.protocol.messages.message import MessageQueue
from tests.pipelines.html_page import Html

FIRST = 1_000_000  # steps since 1970
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def topic(name: str = "orders", queues: tuple[int, ...] = (250, 250, 250, 250), **changes: object) -> TopicProfile:
    """Return a topic in which nothing stands out."""
    messages = sum(queues)
    calm = TopicProfile(
        topic=name,
        messages=messages,
        stored=messages * 500,
        bodies=messages * 300,
        first=datetime.fromtimestamp(FIRST * 10, UTC),
        last=datetime.fromtimestamp((FIRST + 9) * 10, UTC),
        sizes=Percentiles(300, 310, 320, 330, 340),
        latencies_ms=Percentiles(1, 2, 3, 4, 5),
        early=0,
        tag_count=1,
        queues=[
            QueueProfile(broker_name="broker-a", queue_id=number, messages=count, rates={FIRST: count} if count else {})
            for number, count in enumerate(queues)
        ],
        size_steps={65: Weight(messages, messages * 500)},
        latency_steps={0: Weight(messages, messages * 500)},
        tags=[NameCount("created", messages)],
        keys=[NameCount(f"k{number}", 10, 1) for number in range(12)],
        key_count=messages // 10,
        with_key=messages,
    )
    return replace(calm, **changes)


def profile(*topics: TopicProfile, **changes: object) -> Profile:
    return replace(Profile(origin="the cluster at here:1", sample=1.0, width=10.0, topics=list(topics)), **changes)


def sentences(of: Profile) -> str:
    return "\n".join(line.text for line in headlines(of))


def test_where_nothing_stands_out_the_page_says_so() -> None:
    assert headlines(profile(topic())) == [ALL_IS_WELL]


def test_few_keys_that_make_much_are_named_with_their_share() -> None:
    hot = [NameCount("anna", 250, 1), NameCount("bert", 160, 1), NameCount("cleo", 3, 1)]
    assert "2 keys make 41 % of the messages of orders: “anna” and “bert”." in sentences(profile(topic(keys=hot)))


def test_few_keys_in_all_are_no_skew() -> None:
    only = [NameCount("anna", 500, 1), NameCount("bert", 500, 1)]
    assert "make" not in sentences(profile(topic(keys=only, key_count=2)))


def test_keys_in_several_queues_and_messages_without_one_are_told() -> None:
    told = sentences(profile(topic(scattered_keys=25, with_key=800)))
    assert "25 % of the keys of orders lie in several queues" in told
    assert "20 % of the messages of orders have no key." in told


def test_an_empty_queue_is_told() -> None:
    assert "1 of the 4 queues of orders is empty: 3." in sentences(profile(topic(queues=(300, 350, 350, 0))))
    assert "2 of the 4 queues of orders are empty: 2 and 3." in sentences(profile(topic(queues=(500, 500, 0, 0))))


def test_a_queue_of_which_nothing_was_counted_is_not_called_empty_if_it_is_not() -> None:
    partly = topic(queues=(300, 350, 350, 0))
    partly.queues[3].held = 5
    assert "empty" not in sentences(profile(partly))


def test_a_queue_that_holds_too_much_is_told_with_the_key_that_fills_it() -> None:
    skewed = topic(queues=(700, 100, 100, 100))
    skewed.queues[0].hottest = NameCount("anna", 630)
    told = sentences(profile(skewed))
    assert "Queue 0 of orders holds 2.8 times an even share; 90 % of it is the key “anna”." in told


def test_queues_of_several_brokers_are_told_apart() -> None:
    two = topic(queues=(900, 100))
    two.queues[1].broker_name, two.queues[1].queue_id = "broker-b", 0
    assert "Queue broker-a/0 of orders" in sentences(profile(two))


def test_a_burst_is_told_but_a_single_message_is_none() -> None:
    def with_peak(peak: int, mean: int) -> Profile:
        busy = topic(queues=(peak + 29 * mean,))
        busy.queues[0].rates = {FIRST + step: mean for step in range(29)} | {FIRST + 29: peak}
        return profile(busy)

    assert "The busiest 10 s of orders took 600 messages" in sentences(with_peak(600, 20))
    assert "busiest" not in sentences(with_peak(19, 1))


def test_a_few_large_messages_that_are_most_of_the_bytes_are_told() -> None:
    heavy = topic(stored=500_000, size_steps={65: Weight(980, 100_000), 120: Weight(20, 400_000)})
    assert "2.0 % of the messages of orders are 80 % of its bytes" in sentences(profile(heavy))


def test_lag_is_told_by_group_and_worries_only_if_it_is_much() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    much, little, none = (GroupProgress("g", queue, at, 1000) for at in (100, 990, 1000))
    assert [line.tone for line in headlines(profile(topic(), progress=[much]))] == ["warn"]
    assert "Group g is 900 messages behind in orders." in sentences(profile(topic(), progress=[much]))
    assert [line.tone for line in headlines(profile(topic(), progress=[little]))] == ["note", "good"]
    assert "No group is behind: g." in sentences(profile(topic(), progress=[none]))


def test_dead_letters_are_told_with_their_most_frequent_cause() -> None:
    failures = [
        Failure(True, "billing", "orders", "no amount", 5, 16),
        Failure(True, "billing", "orders", "no address", 2, 16),
        Failure(False, "billing", "orders", "time-out", 9, 3),
    ]
    told = sentences(profile(topic(), failures=failures))
    assert "Group billing has given up 7 messages, most often for this cause: no amount." in told
    assert "9 deliveries had to be repeated, for billing." in told


def test_the_page_stands_alone_and_has_all_parts() -> None:
    queue = MessageQueue("orders", "broker-a", 0)
    full = profile(
        topic(latency_over_time={FIRST: (1.0, 5.0)}),
        topic("payments", (10,)),
        progress=[GroupProgress("billing", queue, 100, 1000)],
        failures=[Failure(True, "billing", "orders", "no amount", 5, 16)],
        sends=[Timing("orders", "", 10, 1, 2, 3, 4)],
        ways=[Timing("orders", "billing", 10, 5, 6, 7, 8)],
        calls=[Timing("", "billing", 10, 1, 2, 3, 4, 2)],
    )
    page = Html(render(full, "", NOW))
    for word in ("orders and 1 more topic", "All topics", "Size of bodies", "Born to stored", "Tags", "Keys", "Queues",
                 "Behind", "Failures", "no amount", "Traces", "From the send to the listener"):  # fmt: skip
        assert word in page.text
    assert "1,010 messages that were there have been counted" in page.text
    assert page.tags.count("svg") > 10


def test_a_sample_is_called_one() -> None:
    text = Html(render(profile(topic(), sample=0.1), "", NOW)).text
    assert "A sample: 10 % of the messages, chosen at random, 1,000 in all." in text
    assert "a sample of 10 %: counts, rates and bytes are those of the sample" in text
    assert "messages in the sample" in text
    assert "have been counted" not in text


def test_names_from_messages_are_never_markup() -> None:
    evil = "</title><script>alert(1)</script>"
    bad = topic(evil, keys=[NameCount(evil, 900, 1)], tags=[NameCount(evil, 5), NameCount(None, 995)])
    failures = [Failure(True, evil, evil, evil, 5, 16)]
    page = Html(render(profile(bad, failures=failures), evil, NOW))  # refuses a tag <script>
    assert evil in page.text


def test_a_topic_of_one_message_has_a_page() -> None:
    single = topic(queues=(1,), keys=[], key_count=0, with_key=0)
    Html(render(profile(replace(single, last=single.first)), "One", NOW))


def test_topics_beyond_the_largest_are_in_the_table_only_and_the_page_says_so() -> None:
    text = Html(render(profile(*[topic(f"t{number}") for number in range(10)]), "", NOW)).text
    assert "2 topics with fewer messages are in the table only." in text
    assert "t9" in text


def test_histograms_are_joined_until_they_can_be_read() -> None:
    steps = {step: Weight(1, 2) for step in range(160)} | {-1: Weight(7, 0)}
    bars = merged(steps, 8)
    assert bars[0] == (0.0, 1.0, Weight(7, 0))
    assert len(bars) <= 33
    assert sum(weight.messages for _, _, weight in bars) == 167
    assert all(left[1] == right[0] for left, right in itertools.pairwise(bars)), "without gaps"


def test_a_histogram_of_one_value_is_a_bar_among_others_not_a_wall() -> None:
    for step in (0, 45, 160):
        bars = merged({step: Weight(7, 0)}, 8)
        assert len(bars) == 9
        assert [weight.messages for _, _, weight in bars if weight.messages] == [7]


def test_keys_that_no_two_messages_share_are_not_listed() -> None:
    keys = [NameCount(f"k{number}", 1, 1) for number in range(12)]
    text = Html(render(profile(topic(keys=keys, key_count=1000)), "", NOW)).text
    assert "1,000 keys: no two messages have the same one." in text
    assert "k11" not in text


def test_keys_that_are_all_about_as_frequent_are_a_sentence_not_a_chart() -> None:
    keys = [NameCount(f"k{number}", 5 if number < 6 else 4, 1) for number in range(12)]
    text = Html(render(profile(topic(keys=keys, key_count=400)), "", NOW)).text
    assert "400 keys: 2.5 messages each in the mean, and at most 5 messages." in text
    assert "k0" not in text
    hot = [NameCount("k0", 40, 1), *keys[1:]]
    assert "k0" in Html(render(profile(topic(keys=hot, key_count=400)), "", NOW)).text
    few = Html(render(profile(topic(keys=keys, key_count=12)), "", NOW)).text
    assert "k0" in few, "all keys there are may be equal"


def test_sizes_of_compressed_bodies_are_called_what_they_are() -> None:
    plain = Html(render(profile(topic(), topic("others")), "", NOW)).text
    assert "as stored" not in plain
    assert "300 B*" not in plain
    text = Html(render(profile(topic(compressed=250), topic("others")), "", NOW)).text
    assert "Size of bodies, as stored" in text
    assert "25 % of the messages are compressed; their bodies are larger." in text
    assert text.count("300 B*") == 1, "in the table of topics, only where it is so"


def test_dead_letters_that_were_sent_again_do_not_worry() -> None:
    failed = profile(topic(), failures=[Failure(True, "billing", "orders", "no amount", 5, 16)])
    (line, _) = headlines(failed, {"billing": 5})
    assert line.tone == "note"
    assert line.text.startswith("Group billing had given up 5 messages, all sent again since")
    assert headlines(failed, {"billing": 4})[0].tone == "warn"


@given(st.integers(min_value=1_700_000_000_000, max_value=1_800_000_000_000), st.sampled_from([50, 200, 1000, 5000]))
def test_steps_of_time_are_those_that_spark_counts(time_ms: int, width_ms: int) -> None:
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    assert list(profile(topic(first=time, last=time), width=width_ms / 1000).steps) == [time_ms // width_ms]
