"""Forests with scikit-learn's API: six estimators that need NumPy, but never scikit-learn.

Swap the import and add a budget:

>>> from edgeforest import RandomForestClassifier
>>> X, y = [[0, 0], [1, 1], [0, 1], [1, 0]] * 25, ["no", "yes", "no", "yes"] * 25
>>> forest = RandomForestClassifier(n_estimators=10, budget=50_000, random_state=0).fit(X, y)
>>> forest.predict([[1, 1], [0, 0]]).tolist(), forest.spent_.insertions <= 50_000
(['yes', 'no'], True)
"""

from edgeforest.estimators.base import BaseForest
from edgeforest.estimators.classifiers import (
    ExtraTreesClassifier,
    ForestClassifier,
    RandomForestClassifier,
    RandomPatchesClassifier,
)
from edgeforest.estimators.regressors import (
    ExtraTreesRegressor,
    ForestRegressor,
    RandomForestRegressor,
    RandomPatchesRegressor,
)
from edgeforest.host.fitted import NotFittedError
from edgeforest.estimators.trees import Tree, Trees

__all__ = [
    "BaseForest",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "ForestClassifier",
    "ForestRegressor",
    "NotFittedError",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomPatchesClassifier",
    "RandomPatchesRegressor",
    "Tree",
    "Trees",
]
