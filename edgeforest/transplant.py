"""Trees on their way from a grove into a forest, and back.

This file runs unchanged on CPython and MicroPython.
"""

from array import array

from edgeforest.codes import vote_shares
from edgeforest.core_pure import GrowingTree
from edgeforest.forest import LEAF, LEVELS
from edgeforest.grove import UNIT, level_of

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.forest import Forest
    from edgeforest.host.types import *


def for_forest(nodes: "list[Any]", width: "int", scale: "int") -> "GrowingTree":
    """The nodes of a grove's tree as a tree that `move_to` adds to a forest."""
    feature, threshold, left, right, votes = nodes
    tree = GrowingTree()
    tree.feature = feature
    tree.threshold = threshold
    tree.left = array("I", left)
    tree.right = array("I", right)
    leaves = 0
    stack = [0]
    while stack:  # in preorder
        node = stack.pop()
        if feature[node] != LEAF:
            stack.append(right[node])
            stack.append(left[node])
            continue
        leaves += 1
        tree.right[node] = leaves
        threshold[node] = 0.0  # left over from an earlier split
        if width:
            some = votes[node * width : node * width + width]
            tree.votes.extend(array("H", vote_shares(some, sum(some) or 1, scale)))
        else:
            tree.votes.append(level_of(votes[2 * node], votes[2 * node + 1], scale))
    return tree


def for_grove(forest: "Forest", start: "int", end: "int", scale: "int") -> "list[Any]":
    """The nodes from start to end of a forest as `Grove.plant` takes them: two children together."""
    n = end - start
    width = forest.n_votes
    places = array("H", bytes(2 * n))  # where each node goes
    feature, threshold = forest.feature[start:end], forest.threshold[start:end]
    left, right = places[:], places[:]
    votes = array("I", bytes(4 * n * (2 if forest.regression else width)))
    used = 1
    for i in range(n):
        at, here = places[i], forest.right[start + i]
        feature[at] = forest.feature[start + i]
        threshold[at] = forest.threshold[start + i]
        if forest.split(start + i):
            left[at] = places[i + 1] = used
            right[at] = places[here - start] = used + 1
            used += 2
        elif forest.regression:
            votes[2 * at] = 8 * UNIT
            total = 8 * UNIT * forest.votes[here] * scale // forest.scale
            votes[2 * at + 1] = min(8 * UNIT * LEVELS, total)  # merging may lift it above that
        else:
            some = forest.votes[here * width : here * width + width]
            shares = vote_shares(some, sum(some) or 1, scale)
            votes[at * width : at * width + width] = array("I", shares)
    gains = [v / 10000 for v in forest.importances]
    return [feature, threshold, left, right, votes, gains]


def widened(votes: "array[int]", before: "int", now: "int") -> "array[int]":
    """Votes of `before` classes with places for `now`."""
    wide = array("I", bytes(4 * now * (len(votes) // before)))
    for at in range(0, len(votes), before):
        here = at // before * now
        wide[here : here + before] = votes[at : at + before]
    return wide


def checked(head: "Forest", latest: "Any") -> "tuple[array[float], array[int]]":
    """The latest rows as a grove takes them; refused if they do not fit the forest."""
    values, labels = array("f", latest[0]), array("H", latest[1])
    m, categories = len(head.names), head.categories
    most = head.scale if head.classes is None else len(head.classes) - 1
    if len(values) != m * len(labels) or max(labels or (0,)) > most:
        raise ValueError("the latest rows do not fit the forest: give those of Grove.latest")
    for i, x in enumerate(values):
        kinds = categories[i % m]
        if kinds is None:
            fits = x - x == 0
        else:
            fits = 0 < x <= len(kinds) and x == int(x)
        if not fits and x == x:
            raise ValueError(f"the latest rows hold {x} as {head.names[i % m]!r}; drop that row")
    return values, labels
