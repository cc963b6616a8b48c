"""Random forests that train on the device, under a hard budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from edgeforest import engines
from edgeforest.budget import Budget, Rng
from edgeforest.core_pure import Training
from edgeforest.engines import load, train_steps
from edgeforest.forest import Forest, Spent
from edgeforest.host.frames import is_frame
from edgeforest.host.version import __version__ as __version__

if TYPE_CHECKING:
    from edgeforest.drift import Drift
    from edgeforest.engines import Name, Options
    from edgeforest.estimators import (
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
        RandomPatchesClassifier,
        RandomPatchesRegressor,
    )
    from edgeforest.estimators.tuning import Tuning, tune
    from edgeforest.forests.calibration import calibrate
    from edgeforest.forests.dependence import Dependence, partial_dependence
    from edgeforest.forests.explanation import Explanation, explain, export_text
    from edgeforest.forests.importance import Importances, permutation_importance, stability
    from edgeforest.forests.merging import merge
    from edgeforest.forests.plots import plot_importances, plot_tree
    from edgeforest.forests.pruning import prune
    from edgeforest.forests.shap import ShapValues, shap_values
    from edgeforest.host.progress import Progress
    from edgeforest.online import OnlineForest
    from edgeforest.reports import plots as plots
    from edgeforest.reports.writing import write_report
    from edgeforest.sources import open_source
    from edgeforest.sources.training import train_source
    from edgeforest.windows import Windows

engine = engines  # its name in programs: `engine.name`, `engine.present()`

__all__ = [
    "Budget",
    "Dependence",
    "Drift",
    "Explanation",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "Forest",
    "Importances",
    "OnlineForest",
    "Progress",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomPatchesClassifier",
    "RandomPatchesRegressor",
    "Rng",
    "ShapValues",
    "Spent",
    "Training",
    "Tuning",
    "Windows",
    "calibrate",
    "explain",
    "export_text",
    "load",
    "merge",
    "open_source",
    "partial_dependence",
    "permutation_importance",
    "plot_importances",
    "plot_tree",
    "prune",
    "shap_values",
    "stability",
    "train",
    "train_source",
    "train_steps",
    "tune",
    "write_report",
]

# Loaded when they are asked for: what only trains on a board's budget starts at once.
_LATER = {
    "forests.merging": ("merge",),
    "estimators": (
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
        "RandomForestClassifier",
        "RandomForestRegressor",
        "RandomPatchesClassifier",
        "RandomPatchesRegressor",
    ),
    "estimators.tuning": ("Tuning", "tune"),
    "forests.calibration": ("calibrate",),
    "forests.dependence": ("Dependence", "partial_dependence"),
    "forests.explanation": ("Explanation", "explain", "export_text"),
    "forests.importance": ("Importances", "permutation_importance", "stability"),
    "drift": ("Drift",),
    "online": ("OnlineForest",),
    "forests.plots": ("plot_importances", "plot_tree"),
    "host.progress": ("Progress",),
    "forests.pruning": ("prune",),
    "forests.shap": ("ShapValues", "shap_values"),
    "reports.plots": ("plots",),
    "reports.writing": ("write_report",),
    "sources": ("open_source",),
    "sources.training": ("train_source",),
    "windows": ("Windows",),
}


def _card(forest: Forest) -> str | None:
    """How a notebook shows a forest; None, its plain text, if NumPy is not there."""
    try:
        from edgeforest.reports.card import card
    except ModuleNotFoundError:
        return None
    return card(forest)


# A board has no notebook, and no room for what few ask for.
setattr(Forest, "_repr_html_", _card)  # noqa: B010


def train(
    X: Any,
    y: Any,
    *,
    engine: "Name | None" = None,
    n_jobs: int | None = None,
    **options: "Unpack[Options]",
) -> Forest:
    """Train a forest to the end, or to the end of its budget: see `train_steps`.

    X may also be a source, from `open_source`; y then names its target: see `train_source`.

    >>> train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)]).predict([[1], [5]])
    [False, True]
    """
    if hasattr(X, "names") and hasattr(X, "read") and not is_frame(X):  # a source
        from edgeforest.sources.training import train_source

        return train_source(X, y, engine=engine, n_jobs=n_jobs, **options)
    return engines.train(X, y, engine=engine, n_jobs=n_jobs, **options)


if not TYPE_CHECKING:  # which knows what there is without it

    def __getattr__(name: str) -> Any:
        for module, names in _LATER.items():
            if name in names:
                try:
                    found = import_module(f"edgeforest.{module}")
                    return found if name == "plots" else getattr(found, name)
                except ModuleNotFoundError as error:
                    if error.name != "numpy":
                        raise
                    raise ImportError(
                        f"{name} needs NumPy: install it (pip install 'edgeforest[numpy]'), or "
                        "use edgeforest.train, which needs nothing"
                    ) from None
        raise AttributeError(f"module 'edgeforest' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
