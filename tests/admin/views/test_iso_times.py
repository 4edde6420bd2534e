"""Times in JSON."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyromq.admin.views.iso_times import iso_moment, iso_time, with_iso_times


def test_a_time_is_utc_with_milliseconds() -> None:
    assert iso_time(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
    moment = datetime(2023, 11, 14, 23, 13, 20, tzinfo=timezone(timedelta(hours=1)))
    assert iso_moment(moment) == "2023-11-14T22:13:20.000Z"
    assert iso_moment(None) is None


def test_a_time_of_no_calendar_is_shown_as_it_is() -> None:
    assert iso_time(2**62) == "4611686018427387904 ms"
    assert iso_time(-(2**62)) == "-4611686018427387904 ms"


def test_fields_that_hold_milliseconds_become_texts() -> None:
    fields = {"first_store_timestamp_ms": 1_700_000_000_000, "last_store_timestamp_ms": 0, "messages": 3}
    assert with_iso_times(fields) == {
        "first_store_timestamp": "2023-11-14T22:13:20.000Z",
        "last_store_timestamp": None,
        "messages": 3,
    }
