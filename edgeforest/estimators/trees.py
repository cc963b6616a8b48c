"""The single trees of an estimator: what each predicts, and the nodes that a row passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

import edgeforest.estimators.prediction as prediction
from edgeforest.estimators.schema import encoded
from edgeforest.forests import oob, walking
from edgeforest.forests.merging import keep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgeforest.forest import Forest
    from edgeforest.estimators.parameters import Parameters
    from edgeforest.host.values import Array


class Tree:
    """One tree of an estimator: it predicts the same way as the estimator.

    >>> from edgeforest import RandomForestRegressor
    >>> forest = RandomForestRegressor(3, random_state=0).fit([[0.0], [1.0]] * 9, [5.0, 7.0] * 9)
    >>> [tree.predict([[1.0]]).item() for tree in forest.estimators_]
    [7.0, 7.0, 7.0]
    """

    def __init__(self, owner: Parameters, place: int) -> None:
        self._owner = owner
        self.forest_ = keep(owner.forest_, [place])

    def predict(self, X: Any) -> Array:
        """The class or value of each row, by this tree alone."""
        table = encoded(self._owner, X)
        if self.forest_.regression:
            return prediction.values(self.forest_, table)
        return prediction.labels(self.forest_, table, self._owner.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share of each class for each row, by this tree alone."""
        if self.forest_.regression:
            raise AttributeError("predict_proba is for classifiers; use predict for a regression")
        return prediction.shares(self.forest_, encoded(self._owner, X))

    def apply(self, X: Any) -> NDArray[np.int64]:
        """The leaf that each row reaches."""
        found: NDArray[np.int64] = oob.leaves(self.forest_, encoded(self._owner, X))[0]
        return found

    @property
    def node_count(self) -> int:
        """The number of nodes, leaves included."""
        return len(self.forest_.feature)

    def get_n_leaves(self) -> int:
        """The number of leaves."""
        return len(walking.leaves(self.forest_))

    def get_depth(self) -> int:
        """The largest number of questions that a row is asked."""
        return walking.depth(self.forest_)


class Trees(Sequence[Tree]):
    """The trees of an estimator, each made when it is asked for."""

    def __init__(self, owner: Parameters) -> None:
        self._owner = owner

    def __len__(self) -> int:
        return len(self._owner.forest_)

    @overload
    def __getitem__(self, place: int) -> Tree: ...
    @overload
    def __getitem__(self, place: slice) -> list[Tree]: ...
    def __getitem__(self, place: int | slice) -> Tree | list[Tree]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return Tree(self._owner, places)
        return [Tree(self._owner, i) for i in places]


def paths(forest: Forest, table: Array) -> tuple[Any, NDArray[np.int64]]:
    """The nodes that each row passes as a sparse matrix (rows, nodes), and where trees begin."""
    try:
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("decision_path needs SciPy: install it (pip install scipy)") from None
    leaves = oob.leaves(forest, table)
    nodes = walking.arrays(forest)
    splits = np.flatnonzero(~nodes.is_leaf)
    parent = np.full(len(nodes.is_leaf), -1)
    parent[nodes.left[splits]] = splits
    parent[nodes.right[splits]] = splits
    levels = []  # from the leaves upwards; -1 above the root
    node = leaves
    while (node >= 0).any():
        levels.append(node)
        node = np.where(node >= 0, parent[node], -1)
    trees = np.stack(levels)[::-1].transpose(2, 1, 0)  # row, tree, level
    passed = trees >= 0
    begin = np.concatenate([[0], np.cumsum(passed.sum(axis=(1, 2)))])
    matrix = csr_matrix(
        (np.ones(begin[-1], np.int64), trees[passed], begin),
        shape=(leaves.shape[1], len(parent)),
    )
    return matrix, np.append(np.asarray(forest.roots, np.int64), len(parent))
