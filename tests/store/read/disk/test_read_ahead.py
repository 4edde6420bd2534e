from __future__ import annotations

from pyromq.store.read.disk.read_ahead import (
    CHUNK,
    LEAST_AHEAD,
    MANY,
    MOST_AHEAD,
    MOST_AHEAD_OF_ALL,
    MOST_STREAMS,
    Plan,
    ReadAhead,
)
from pyromq.store.segments import FileRange

LOG = "commitlog/0"


def chunks(first: int, stop: int, path: str = LOG) -> FileRange:
    return FileRange(path, first * CHUNK, (stop - first) * CHUNK)


def records(position: int, count: int = MANY, step: int = 4000, path: str = LOG) -> list[FileRange]:
    """Return the records of one of several queues, which lie among those of others."""
    return [FileRange(path, position + number * step, 1000) for number in range(count)]


def catch_up(ahead: ReadAhead, chunk: int, path: str = LOG) -> Plan:
    return ahead.missed(records(chunk * CHUNK, path=path))


def test_a_single_read_gets_its_bytes_and_little_more() -> None:
    plan = ReadAhead().missed([FileRange(LOG, 5000, 4096)])
    assert plan == Plan([FileRange(LOG, 5000, 4096)], [FileRange(LOG, 9096, LEAST_AHEAD)])


def test_single_reads_far_from_each_other_stay_single_reads() -> None:
    ahead = ReadAhead()
    for number in range(3 * MOST_STREAMS):
        position = number * 37 % 101 * 2 * CHUNK
        assert ahead.missed([FileRange(LOG, position, 4096)]).parts == [FileRange(LOG, position, 4096)]


def test_ranges_near_each_other_are_read_as_one() -> None:
    plan = ReadAhead().missed([*records(0, 3), FileRange(LOG, 5 * CHUNK, 10), FileRange("queue", 0, 20)])
    assert plan.parts == [FileRange(LOG, 0, 9000), FileRange(LOG, 5 * CHUNK, 10), FileRange("queue", 0, 20)]


def test_who_misses_many_records_gets_whole_chunks() -> None:
    assert ReadAhead().missed(records(CHUNK + 77)) == Plan([chunks(1, 2)], [chunks(2, 3)])
    over_the_border = ReadAhead().missed(records(2 * CHUNK - 10_000))
    assert over_the_border == Plan([chunks(1, 2), chunks(2, 3)], [chunks(3, 4)])


def test_a_second_read_behind_a_single_one_gets_whole_chunks() -> None:
    ahead = ReadAhead()
    ahead.missed([FileRange("queue", 0, 16_000)])
    plan = ahead.missed([FileRange("queue", LEAST_AHEAD + 16_000, 16_000)])
    assert plan == Plan([chunks(0, 1, "queue")], [chunks(1, 2, "queue")])


def test_the_next_chunks_are_asked_for_before_a_reader_comes_to_them_more_each_time() -> None:
    ahead = ReadAhead()
    catch_up(ahead, 0)
    asked = [ahead.reached(LOG, chunk * CHUNK)[1] for chunk in range(1, 6)]
    assert asked == [chunks(2, 4), chunks(4, 7), chunks(7, 12), chunks(12, 13), chunks(13, 6 + MOST_AHEAD)]


def test_the_consumers_of_a_stretch_share_what_is_read_ahead() -> None:
    ahead = ReadAhead()
    catch_up(ahead, 10)
    assert ahead.reached(LOG, 11 * CHUNK) == (True, chunks(12, 14))
    assert ahead.reached(LOG, 11 * CHUNK) == (True, None)
    assert ahead.reached(LOG, 9 * CHUNK) == (True, None), "one that is a little behind"
    assert catch_up(ahead, 12) == Plan([chunks(12, 13)], [chunks(14, 17)]), "it is still on its way"


def test_nothing_is_read_ahead_where_nobody_misses_anything() -> None:
    ahead = ReadAhead()
    assert ahead.reached(LOG, 0) == (False, None)
    catch_up(ahead, 10)
    assert ahead.reached(LOG, 50 * CHUNK) == (False, None)
    assert ahead.reached("another file", 11 * CHUNK) == (False, None)
    ahead.missed([FileRange("single", 0, 10)])
    assert ahead.reached("single", 0) == (False, None)


def test_all_readers_together_are_ahead_by_a_bounded_number_of_chunks() -> None:
    ahead = ReadAhead()
    paths = [f"file {number}" for number in range(2 * MOST_STREAMS)]
    for path in paths:
        catch_up(ahead, 0, path)
    asked = dict.fromkeys(paths, 0)
    for chunk in range(1, 20):
        for path in paths:
            more = ahead.reached(path, chunk * CHUNK)[1]
            asked[path] = more.position + more.length if more else asked[path]
    beyond = [end // CHUNK - 20 for end in asked.values() if end]
    assert len(beyond) == MOST_STREAMS
    assert 0 < sum(beyond) <= MOST_AHEAD_OF_ALL
