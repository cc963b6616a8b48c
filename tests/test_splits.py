"""Blocks of rows that are left out in turn: days, stretches, groups; and scikit-learn takes them."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold, cross_val_score

from edgeforest.splits import GroupBlocks, RandomRows, TimeBlocks, choose

MINUTE = timedelta(minutes=1)


def minutes(n, start=datetime(2024, 5, 1, 12)):
    return [start + i * MINUTE for i in range(n)]


def names(splitter, n=0):
    return [block.name for block in splitter.blocks(n)]


def test_three_days_are_blocks_and_two_are_five_stretches():
    times = minutes(4000)  # from noon of the first to the fourth day
    days = TimeBlocks(times)
    assert names(days) == [
        "Wednesday 2024-05-01", "Thursday 2024-05-02", "Friday 2024-05-03", "Saturday 2024-05-04"
    ]  # fmt: skip
    assert days.kind == "days"
    assert [len(block.rows) for block in days.blocks(4000)] == [720, 1440, 1440, 400]
    for block in days.blocks(4000):
        assert {times[i].date() for i in block.rows} == {times[block.rows[0]].date()}
    short = TimeBlocks(minutes(1000))
    assert short.kind == "stretches of the log"
    assert [len(block.rows) for block in short.blocks(1000)] == [200] * 5
    assert short.kind == "stretches of the log"


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.5])
def test_nothing_close_to_a_block_is_trained_on(gap):
    times = minutes(4000)
    days = TimeBlocks(times, gap=gap)
    far = gap * (times[-1] - times[0]) / 4
    for block, (train, test) in zip(days.blocks(4000), days.split(times), strict=True):
        assert test == list(block.rows)
        low, high = times[test[0]], times[test[-1]]
        expected = [i for i, t in enumerate(times) if t < low - far or t > high + far]
        assert train == expected
        assert not set(train) & set(test)


def test_many_days_are_ten_blocks_of_whole_days():
    start = datetime(2024, 1, 1)
    times = [start + timedelta(hours=i) for i in range(24 * 47)]
    splitter = TimeBlocks(times)
    blocks = splitter.blocks(len(times))
    assert splitter.kind == "blocks of days"
    assert len(blocks) == 10
    found = [{times[i].date() for i in block.rows} for block in blocks]
    assert sum(map(len, found)) == 47, "no day is in two blocks"
    assert {len(days) for days in found} <= {4, 5}
    assert blocks[0].name.startswith("2024-01-01 to 2024-01-0")


def test_a_day_with_a_few_rows_is_joined_to_its_neighbour():
    times = minutes(1440 * 3 + 30, datetime(2024, 5, 1, 23, 45))
    assert names(TimeBlocks(times)) == [
        "2024-05-01 to 2024-05-02", "Friday 2024-05-03", "2024-05-04 to 2024-05-05"
    ]  # fmt: skip


def test_times_may_be_unsorted_missing_and_of_any_kind():
    when = minutes(4000)
    order = np.random.default_rng(0).permutation(4000)
    expected = [len(block.rows) for block in TimeBlocks(when).blocks(0)]
    given = {
        "text": [t.isoformat(" ") for t in when],
        "zoned": [f"{t.isoformat()}+02:00" for t in when],
        "seconds": [(t - datetime(1970, 1, 1)).total_seconds() for t in when],
        "pandas": list(pd.to_datetime(when)),
        "numpy": np.array(when, dtype="datetime64[s]"),
    }
    for kind, times in given.items():
        mixed = [times[i] for i in order]
        splitter = TimeBlocks(mixed)
        blocks = splitter.blocks(4000)
        assert [len(block.rows) for block in blocks] == expected, kind
        for block in blocks:
            assert len({when[order[i]].date() for i in block.rows}) == 1
            train = splitter.training_rows(4000, block)
            assert not {when[order[i]].date() for i in train} & {when[order[block.rows[0]]].date()}
    holes = [None if i % 7 == 0 else t for i, t in enumerate(when)]
    left = [i for train, test in TimeBlocks(holes).split(holes) for i in (*train, *test)]
    assert not any(i % 7 == 0 for i in left), "rows without a time are used nowhere"
    assert len(TimeBlocks([date(2024, 5, 1 + i % 4) for i in range(100)]).blocks(0)) == 4


def test_rows_of_one_moment_stay_together():
    times = [datetime(2024, 5, 1, 10, i // 7, tzinfo=UTC) for i in range(100)]
    for block in TimeBlocks(times).blocks(100):
        inside = {times[i] for i in block.rows}
        assert not inside & {times[i] for i in range(100) if i not in set(block.rows)}


def test_groups_are_left_out_like_scikit_learn_does():
    groups = ["hall", "attic", "cellar", "attic"] * 10
    X = np.arange(40).reshape(-1, 1)
    ours = sorted(tuple(test) for _, test in GroupBlocks(groups).split(X))
    theirs = sorted(tuple(test) for _, test in GroupKFold(3).split(X, groups=groups))
    assert ours == theirs
    assert ours == sorted(tuple(test) for _, test in GroupBlocks().split(X, groups=groups))
    many = [f"g{i % 37}" for i in range(370)]
    blocks = GroupBlocks(many).blocks(370)
    assert len(blocks) == 10
    inside = [{many[i] for i in block.rows} for block in blocks]
    assert sum(map(len, inside)) == 37
    assert max(len(block.rows) for block in blocks) == 40


def test_random_rows_are_each_left_out_once():
    blocks = RandomRows(seed=3).blocks(103)
    assert sorted(i for block in blocks for i in block.rows) == list(range(103))
    assert [block.rows for block in blocks] == [b.rows for b in RandomRows(seed=3).blocks(103)]
    assert [block.rows for block in blocks] != [b.rows for b in RandomRows(seed=4).blocks(103)]
    assert max(blocks[0].rows) > 60
    assert min(blocks[0].rows) < 40


@pytest.mark.parametrize("splitter", [TimeBlocks(minutes(300)), TimeBlocks(), RandomRows()])
def test_scikit_learn_takes_them(splitter):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    forest = RandomForestClassifier(5, random_state=0)
    scores = cross_val_score(forest, X, y, cv=splitter)
    assert len(scores) == splitter.get_n_splits(X, y) == 5
    by_hand = [
        forest.fit(X[train], y[train]).score(X[test], y[test]) for train, test in splitter.split(X)
    ]
    assert scores.tolist() == by_hand
    frame = pd.DataFrame(X)
    assert cross_val_score(forest, frame, y, cv=splitter).tolist() == scores.tolist()


def test_what_fits_is_chosen():
    labels = ["a", "b", "b"] * 40
    assert choose(120, labels=labels)[0].kind == "stretches of the log"
    assert choose(120, groups=labels)[0].kind == "groups"
    splitter, why = choose(120, labels=sorted("abcdef" * 20))
    assert (splitter.kind, why) == ("parts at random", "the log is sorted by class")
    once = ["rare" if 50 <= i < 60 else labels[i] for i in range(120)]
    assert choose(120, labels=once)[0].kind == "stretches of the log", "one event is no order"
    assert choose(12)[1] == "there are only 12 rows"


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="times must have one for each of 5 rows, got 3"):
        TimeBlocks(minutes(3)).blocks(5)
    with pytest.raises(ValueError, match="times must be dates as ISO 8601 writes them, got 'noon'"):
        TimeBlocks(["noon"])
    with pytest.raises(ValueError, match="times must hold at least one date, got none"):
        TimeBlocks([None, None])
    with pytest.raises(ValueError, match="groups must be at least 2 different ones, got 1"):
        GroupBlocks(["a", "a"]).blocks(2)
    with pytest.raises(ValueError, match="groups must be given"):
        GroupBlocks().blocks(2)
    with pytest.raises(ValueError, match="rows must be at least 2"):
        RandomRows().blocks(1)
    with pytest.raises(ValueError, match=r"gap must be from 0\.0 to 10\.0, got -1"):
        TimeBlocks(gap=-1.0)
