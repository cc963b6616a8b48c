"""What each tree gets of a limited budget; a board loads this file when it is given one.

This file runs unchanged on CPython and MicroPython.
"""

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def share(insertions: "int", index: "int", planned: "int") -> "int":
    """The insertions of one tree; all shares add up.

    >>> [share(10, i, 4) for i in range(4)]
    [2, 3, 2, 3]
    """
    return insertions * (index + 1) // planned - insertions * index // planned


def deadline(seconds: "float", read: "float", index: "int", planned: "int") -> "float":
    """When one tree has to stop, if reading took until `read`.

    >>> [deadline(10.0, 2.0, i, 4) for i in range(4)]
    [4.0, 6.0, 8.0, 10.0]
    """
    return read + (seconds - read) * (index + 1) / planned


def affordable(task: "Any", least: "int") -> "int":
    """How many trees a limited training grows, if a race wants `least` rows.

    Each tree gets an equal share up front, so that trees may grow in any order or at once. Shares
    too small to grow a tree with would be wasted: then there are fewer trees.
    """
    if task.splitter == "exact":
        least = task.sample_size
    elif task.splitter == "mab-paper":
        from edgeforest.race_paper import PAPER_BATCH as least
    depth = 0 if task.splitter == "exact" else max(0, task.max_depth - 5)
    cost = task.demand(task.sample_size, depth, least) * task.max_features
    n_trees: "int" = task.n_trees
    if cost:
        n_trees = min(n_trees, max(1, task.budget.insertions // cost))
    return n_trees
