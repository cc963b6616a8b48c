"""What sets ExtraTrees, Random Patches, best-first growth and the paper's bins apart.

A board loads this file for `kind="extra-trees"` or `"random-patches"`, `max_leaf_nodes`, or
`splitter="mab-paper"`.
"""

from array import array

from edgeforest.bounds import code_of

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.budget import Rng
    from edgeforest.host.types import *


def draw_patch(task: "Any", rng: "Rng") -> "None":
    """Draw the rows and features that all trees of random patches share."""
    n, m = task.data.n, task.data.m
    patch = array("I", range(n))
    rng.shuffle(patch, n)
    task.data.patch = patch[: max(1, int(task.alpha_n * n + 0.5))]
    rng.shuffle(task.features, m)
    task.features = array("H", sorted(task.features[: max(1, int(task.alpha_f * m + 0.5))]))


def placed(task: "Any", f: "int", codes: "list[int]", before: "int", rng: "Rng") -> "list[int]":
    """The highest codes of the bins of a feature that has these codes in a node, all above `before`."""
    data, bins = task.data, task.n_bins
    first, last = codes[0], codes[-1]
    bounds = data.bounds[f]
    low = bounds[max(0, first - 1)]
    span = bounds[last] - low
    if task.kind == "extra-trees":  # uniform between the smallest and the largest
        spots = sorted([low + span * rng.unit() for _ in range(1, bins)])
    else:  # equally spaced
        spots = [low + span * i / bins for i in range(1, bins)]
    if data.raw:
        cuts = [int(x) for x in spots]
    else:  # one that falls among the largest values is put below them, where it parts the node
        cuts = [min(last - 1, max(first, code_of(x, bounds))) for x in spots]
    return [cut for cut in sorted(set(cuts)) if before < cut < last]


def most_promising(tree: "Any", first: "int") -> "int":
    """Of the nodes that wait, the one whose split gains most; the number of nodes if none."""
    most, node = -1.0, len(tree.feature)
    for i in range(first, node):
        worth = tree.gain[i] * (tree.end[i] - tree.start[i])
        if tree.waits(i) and worth > most:
            node, most = i, worth
    return node


def draw_once(nodes: "Any", rng: "Rng") -> "int":
    """Fill the front of a tree's `rows` without drawing any of them again; returns how many."""
    task, rows, patch = nodes.task, nodes.rows, nodes.data.patch
    size: "int" = task.sample_size
    for i in range(nodes.data.n):
        nodes.times[i] = 1
    for i in range(nodes.data.drawable()):
        rows[i] = i
    rng.shuffle(rows, size)
    if patch:
        for i in range(size):
            rows[i] = patch[rows[i]]
    return size
