"""How much memory a training takes: a board loads this file if its budget has bytes."""

import struct

from edgeforest.budget import EDGE_ROWS
from edgeforest.forest import BOARD
from edgeforest.nodes import LARGE, most_bins

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def check_room(task: "Any") -> "None":
    """Refuse a budget in bytes that has no room for the smallest tree."""
    least, room = task.working_bytes(0, 3), task.budget.bytes
    if least > room:
        raise ValueError(
            f"bytes must be at least {least}, what this training works in, got {room}; "
            "use fewer rows or features"
        )


def working_bytes(task: "Any", nodes: "int", growing: "int") -> "int":
    """The memory that training in plain Python takes above the data, at most.

    With that many nodes in finished trees, and in the tree that grows.
    """
    data = task.data
    item = word = struct.calcsize("P")  # an item of a list ...
    if not BOARD:
        item *= 4  # ... and the object that it points to
    n, m, width = data.n, data.m, data.width
    columns = n * m + 1100 * m
    reading = n * (item + 4) + 2 * min(n, EDGE_ROWS) * item  # one column, while it is encoded
    if data.raw:
        columns = 0 if data.in_place else n * m
        reading = 0
    labels = n * (item + word)  # while they are read
    held = 4 * n + task.row_places * 4 + 8 * m * item
    if data.weights or data.patch:
        held += 8 * n
        labels += n * item
    bins = most_bins(task) + 2
    for kinds in data.categories:
        if kinds is not None:
            bins = 256
    racing = task.max_features * (bins * width * item + 600 + 20 * item)
    racing += 200 * item + 40 * width * item + 4000
    if task.sample_size > LARGE:
        racing += 256 * (width + 1) * item + 2048 * item  # for a second look
    node = 20 + (1 if data.regression else width)
    total: "int" = (
        columns + held + max(labels, reading, racing) + nodes * node + growing * (node + 36)
    )
    return total
