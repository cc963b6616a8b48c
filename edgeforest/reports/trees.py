"""A tree that unfolds: questions inside of questions, without a script."""

from __future__ import annotations

from collections.abc import Iterator

from edgeforest.forest import Forest
from edgeforest.forests.explanation import (
    Branch,
    branches,
    float_text,
    leaf_answer,
    percent,
)
from edgeforest.forests.walking import branch_size
from edgeforest.host.words import count
from edgeforest.reports.svg import COLOURS, Picture, safe

DEPTH = 6  # questions below the first
OPEN = 3  # levels that are unfolded from the start
MOST = 600  # nodes


def unfolding(forest: Forest, tree: int = 0) -> Picture:
    """One tree as nested `details`; branches that are deep are named, not shown."""
    for depth in range(DEPTH, -1, -1):
        shown = list(branches(forest, forest.roots[tree], depth, float_text))
        if len(shown) <= MOST:
            break
    return Picture(f'<div class="tree">{"".join(_lines(forest, shown))}</div>')


def _lines(forest: Forest, shown: list[Branch]) -> Iterator[str]:
    """The tags, in order."""
    open_tags = 0
    for branch in shown:
        for _ in range(open_tags - branch.depth):
            yield "</details>"
        open_tags = min(open_tags, branch.depth)
        words = safe(branch.words, 120) if branch.words else "all rows"
        if branch.goes_on:
            unfolded = " open" if branch.depth < OPEN else ""
            yield f"<details{unfolded}><summary>{words}</summary>"
            open_tags += 1
        elif branch.node.is_leaf:
            yield f"<p>{words} <b>{_answer(forest, branch)}</b></p>"
        else:
            levels, leaves = branch_size(forest, branch.node.place)
            more = f"{count(leaves, 'leaf', 'leaves')}, {levels - 1} deep"
            yield f"<p>{words} <small>… {more}</small></p>"
    yield "</details>" * open_tags


def _answer(forest: Forest, branch: Branch) -> str:
    """What a leaf says, and a bar of its shares."""
    _, shares, says = leaf_answer(forest, branch.node)
    if shares is None:
        return f"{says:.5g}"
    parts = [
        f'<i class="b{k % COLOURS}" style="width:{100 * part:.0f}%"></i>'
        for k, part in enumerate(shares.values())
        if part >= 0.01
    ]
    bar = f'<span class="shares">{"".join(parts)}</span>'
    return f"{safe(says, 40)} {bar} <small>{percent(shares[says])}</small>"
