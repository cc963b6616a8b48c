"""Large nodes: more cuts, and a second look at the threshold that has won the race.

A race has its thresholds between bins of codes. Here every code near the winning threshold is one:
the rows whose codes lie there are counted once more, by code. They are few, because what lies further
off is known from the race.

This file runs unchanged on CPython and MicroPython; a board loads it for nodes of more than
LARGE rows.
"""

from edgeforest.criteria import Contender, best_arm, decide, minus

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.criteria import Split
    from edgeforest.host.types import *

AT_ONCE = 64  # rows: lists are fast and large
REACH = 2  # bins on either side of the threshold that are counted by code
# Codes that are looked at: with the bins below and above them 255, as a byte can count.
LOOK_CODES = 253


def second_look(
    task: "Any",
    count: "Callable[[Contender, int, int, int, int, int], int]",
    lead: "Any",
    stride: "int",
    total: "list[int]",
    rest: "float",
    rows: "tuple[int, int, int]",
) -> "Split":
    """The split by the best code near the winner's threshold; if the budget forbids it, by that.

    `rows` are where the node starts, how far it was counted, and where it ends. `count` counts those of
    its rows that lie between two codes, as `count_within` does.
    """
    start, upto, end = rows
    criterion, budget = task.criterion, task.budget
    split = decide(task, lead, stride, total, rest)
    t = lead.best[1]
    first, last = max(0, t - REACH), min(lead.bins, t + REACH)
    if lead.equal or t == lead.bins:
        return split
    low = lead.cuts[first] if first else (-1 if task.data.raw else 0)
    high = min(lead.cuts[last], low + LOOK_CODES)  # what is looked at: codes from low + 1 to high
    if high - low <= last - first:
        return split  # a bin has one code only
    below = lead.left_cells(first, False, stride)
    most = criterion.size(minus(lead.left_cells(last, False, stride), below))
    left = budget.left()
    if (left is not None and left < most) or not budget.take(most, 1):
        return split
    # Bin 1 is for the codes up to low, the last for those beyond high, which nobody has to count.
    cuts = [0] + list(range(low, high + 1)) + [255]
    fine = Contender(lead.feature, task.data.columns[lead.feature], None, cuts, False)
    wide = fine.bins + 1
    h = fine.h = [0] * (wide * len(total))
    made = count(fine, wide, start, upto, low, high)
    budget.give_back(most - abs(made), 1)  # a row that was drawn twice is one insertion
    if made < 0:
        return split
    missing = lead.left_cells(0, True, stride)
    for k in range(len(total)):
        h[k * wide] = missing[k]
        h[k * wide + 1] = below[k]
        h[k * wide + fine.bins] = total[k] - sum(h[k * wide : (k + 1) * wide])
    fine.best = best_arm(criterion, fine, wide, total, task.least_rows(upto - start, end - start))
    if fine.best:
        split = decide(task, fine, wide, total, rest)
        t = fine.best[1]
        above = t + 1
        while above <= fine.bins and not any(h[above::wide]):
            above += 1
        if above <= fine.bins:  # midway to the next code that was seen
            split.code = low - 1 + ((t + above) >> 1)
    return split


def and_spaced(cuts: "list[int]", spaced: "int", first: "int", last: "int") -> "list[int]":
    """These cuts and some that are equally spaced between the codes first and last of a feature."""
    cuts += [first + (last - first) * i // (spaced + 1) for i in range(1, spaced + 1)]
    return [cut for cut in sorted(set(cuts)) if first <= cut < last]


def count_within(
    nodes: "Any", c: "Contender", stride: "int", start: "int", end: "int", low: "int", high: "int"
) -> "int":
    """Count those of the rows start..end whose code is above `low`, up to `high`, in plain Python.

    Returns how many they are, as a negative number if time has run out before the end.
    """
    data, times, budget = nodes.data, nodes.times, nodes.task.budget
    column, h, y = c.column, c.h, data.y
    made = 0
    for at in range(start, end, AT_ONCE):
        if at > start and budget.late():
            return -made
        kept = []  # in pieces: lists are fast and large
        for i in range(at, min(end, at + AT_ONCE)):
            row = nodes.rows[i]
            if low < column[row] <= high:
                kept.append(row)
        made += len(kept)
        if data.regression:
            from edgeforest.mse import moments

            for k, moment in enumerate(moments(kept, data, times)):
                for row, v in zip(kept, moment):
                    h[column[row] - low + 1 + k * stride] += v
        else:
            for row in kept:
                h[column[row] - low + 1 + y[row] * stride] += times[row]
    return made
