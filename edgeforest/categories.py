"""Categorical features: each value has a code. A board loads this file when it is given some."""

from edgeforest.budget import between
from edgeforest.forest import is_sequence
from edgeforest.labels import plain, sorted_set

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def mark_categorical(data: "Any", categorical: "Any") -> "None":
    """Note which features are categorical, by name or by place."""
    if not is_sequence(categorical):
        raise TypeError(f"categorical must be a list of features, got {categorical!r}")
    for item in categorical:
        named = not isinstance(item, int) and item in data.names
        f = data.names.index(item) if named else item
        data.categories[between("categorical (or name a feature)", f, 0, data.m - 1)] = []


def read_categories(data: "Any", f: "int", values: "Any") -> "bytearray":
    """The codes of a categorical feature; its categories become known to the data."""
    name = data.names[f]
    what = f"categories of {name!r}"
    values = [plain(v, i, what) for i, v in enumerate(values)]
    kinds = data.categories[f] = sorted_set([v for v in values if v is not None], what)
    if len(kinds) > 254:
        raise ValueError(
            f"feature {name!r} has {len(kinds)} categories, at most 254 can be told apart; "
            "group the rare ones"
        )
    place = {v: c + 1 for c, v in enumerate(kinds)}
    place[None] = 0
    return bytearray([place[v] for v in values])
