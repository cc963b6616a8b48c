"""Take back what Ctrl-C has left of a tree that was being added; loaded when there is something.

This file runs unchanged on CPython and MicroPython.
"""

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.forest import Forest
    from edgeforest.host.types import *


def cut_back(forest: "Forest", sizes: "tuple[int, int, int] | None") -> "int":
    """Bring a forest back to its complete trees; returns how many there are.

    `sizes` are those without the other; None if no tree was added yet to those of an earlier run.
    """
    if sizes is None:
        return len(forest.roots)
    trees, nodes, votes = sizes
    values: "Any"
    for values, n in (
        (forest.feature, nodes),
        (forest.threshold, nodes),
        (forest.right, nodes),
        (forest.votes, votes),
        (forest.roots, trees),
    ):
        values[n:] = values[:0]
    return trees
