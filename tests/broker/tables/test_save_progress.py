from __future__ import annotations

from pyromq.broker.tables.save_progress import SaveProgress


def test_each_hears_when_its_own_change_is_saved() -> None:
    progress = SaveProgress()
    heard: list[tuple[int, bool]] = []
    for number in range(1, 4):
        progress.requested = number
        progress.listen(lambda saved, number=number: heard.append((number, saved)))  # type: ignore[misc]
    progress.advance(2)
    assert (heard, progress.pending) == ([(1, True), (2, True)], True)
    progress.advance(1)
    assert progress.saved == 2
    progress.give_up()
    assert heard[2:] == [(3, False)]
    progress.advance(3)
    assert (len(heard), progress.pending) == (3, False)


def test_whoever_listens_again_while_it_is_told_is_kept() -> None:
    progress = SaveProgress()
    progress.requested = 1
    heard: list[bool] = []
    progress.listen(lambda saved: progress.listen(heard.append))
    progress.give_up()
    assert heard == []
    progress.advance(1)
    assert heard == [True]
