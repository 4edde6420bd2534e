"""What a consumer counts, and what tools learn from it."""

from __future__ import annotations

import pytest

from pyromq.client.consume.consumer_stats import SAMPLE_INTERVAL, ConsumerStats


def test_times_of_the_listener_are_means_of_what_was_measured() -> None:
    stats = ConsumerStats(100.0)
    stats.count_measured("orders", 1, 0.002, 0.010)
    stats.count_measured("refunds", 3, 0.006, 0.030)
    load = stats.listener_load(101.0)
    assert load.measured == 4
    assert (load.cpu_ms, load.wait_ms) == pytest.approx((2.0, 8.0))


def test_nothing_measured_is_nothing() -> None:
    assert ConsumerStats(0.0).listener_load(10.0) == (0, 0.0, 0.0, 0.0, 0.0)


def test_calls_under_way_are_those_of_the_last_minute() -> None:
    stats = ConsumerStats(0.0)
    stats.count_job("orders", 40.0, 10, 0)
    for number in range(1, 7):
        stats.sample(number * SAMPLE_INTERVAL)
    stats.count_job("orders", 30.0, 10, 0)
    stats.sample(70.0)
    assert stats.listener_load(70.0).job_seconds == pytest.approx(0.5), "30 s of the last 60"


def test_the_peak_is_that_of_all_topics_in_the_same_ten_seconds() -> None:
    stats = ConsumerStats(0.0)
    stats.count_pull("orders", 0.1, 100)
    stats.count_pull("refunds", 0.1, 0)
    stats.sample(10.0)
    stats.count_pull("orders", 0.1, 300)
    stats.count_pull("refunds", 0.1, 200)
    stats.sample(20.0)
    stats.count_pull("refunds", 0.1, 400)
    stats.sample(30.0)
    assert stats.listener_load(31.0).peak_rate == pytest.approx(50.0)


def test_old_measurements_are_forgotten_after_an_hour() -> None:
    stats = ConsumerStats(0.0)
    stats.count_measured("orders", 1, 1.0, 1.0)
    for number in range(1, 363):
        stats.sample(number * SAMPLE_INTERVAL)
    stats.count_measured("orders", 1, 0.001, 0.002)
    load = stats.listener_load(3630.0)
    assert load.measured == 1
    assert load.cpu_ms == pytest.approx(1.0)
