"""Pick the engine that trains: native (C), numpy or pure, the fastest that is present.

All of them grow the same forest from the same data, options and seed. `engine=` of a call asks for
one by name, or else the environment variable EDGEFOREST_ENGINE, unless that is empty.

>>> from edgeforest import engines as engine
>>> engine.name in engine.present()          # the one that is used by default
True
>>> rows, labels = [[i % 7, i % 3] for i in range(60)], [i % 7 > 2 for i in range(60)]
>>> forest = engine.train(rows, labels, engine="pure", n_trees=3)
>>> forest.engine, forest.to_json() == engine.train(rows, labels, n_trees=3).to_json()
('pure', True)
"""

from __future__ import annotations

import copyreg
import io
import os
import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

from edgeforest import core_pure, loading, sure
from edgeforest.budget import Budget
from edgeforest.budget import between
from edgeforest.core_pure import Engine, Training
from edgeforest.engines import ranges
from edgeforest.forest import Forest, Spent
from edgeforest.host import frames, names
from edgeforest.host.cores import usable_cores
from edgeforest.host.frames import is_frame

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from edgeforest.host.types import (
        ClassWeight,
        Criterion,
        Frame,
        Kind,
        Readable,
        Splitter,
        Values,
    )

Name: TypeAlias = Literal["native", "numpy", "pure"]
NAMES: tuple[Name, ...] = get_args(Name)  # fastest first

name: Name  # of the engine that is used by default; see `__getattr__`

# What an engine is made of, besides Python; why that is not there; how to get it.
_NEEDS = {
    "native": (
        "edgeforest.engines._kernel",
        "it was not compiled when edgeforest was installed",
        "install a C compiler and Python's headers (on Debian: apt install gcc python3-dev), then "
        "edgeforest again from its source (pip install --force-reinstall --no-cache-dir "
        "--no-binary edgeforest edgeforest, or in a checkout: pip install --editable .)",
    ),
    "numpy": ("numpy", "NumPy is not installed", "install it (pip install numpy)"),
}


_MODULES = {
    "native": "edgeforest.engines.native",
    "numpy": "edgeforest.engines.numpy_nodes",
    "pure": "edgeforest.core_pure",
}


class Options(TypedDict, total=False):
    """The options of `Training`, for type checkers; a test keeps them in step."""

    kind: Kind
    criterion: Criterion
    splitter: Splitter
    n_trees: int
    max_depth: int | None
    max_features: int | float | None
    min_samples_leaf: int
    min_samples_split: int
    min_impurity_decrease: float
    max_leaf_nodes: int | None
    n_bins: int | None
    bootstrap: bool | None
    max_samples: int | float | None
    alpha_n: float
    alpha_f: float
    class_weight: ClassWeight | None
    sample_weight: Values | None
    names: Values | None
    categorical: Iterable[str | int]
    n_features: int | None
    by_column: bool
    budget: int | Budget | None
    confidence: float | None
    z: float
    tolerance: float
    batch: int
    seed: int
    first: int


class Absent(RuntimeError):
    """An engine cannot be used: `reason` says why, `remedy` how to get it."""

    def __init__(self, engine: str, error: Exception, advice: str = "") -> None:
        needs, self.reason, self.remedy = _NEEDS[engine]
        self.broken = find_spec(needs) is not None
        if self.broken:  # of another Python, cut short, or of other sources
            said = " ".join(str(error).split())
            self.reason = f"it is there but does not load: {type(error).__name__}: {said}"
        super().__init__(
            f"the {engine} engine cannot be used: {self.reason}; {self.remedy}{advice}"
        )


def _engine(name: str, advice: str = "") -> Engine:
    try:
        engine: Engine = import_module(_MODULES[name]).ENGINE
        return engine
    except Exception as error:  # a damaged installation raises not only ImportError
        if name not in _NEEDS:
            raise
        raise Absent(name, error, advice) from error


def absent() -> dict[Name, Absent]:
    """The engines that cannot be used here, with `reason` and `remedy` of each.

    >>> "pure" in absent()
    False
    """
    found: dict[Name, Absent] = {}
    for engine in NAMES:
        try:
            _engine(engine)
        except Absent as error:
            found[engine] = error
    return found


def present() -> list[Name]:
    """The engines that can be used here, fastest first.

    >>> present()[-1]
    'pure'
    """
    missing = absent()
    return [engine for engine in NAMES if engine not in missing]


def pick(engine: Name | None = None) -> Engine:
    """The engine of that name, of EDGEFOREST_ENGINE, or the fastest present.

    A name that is not known is a ValueError; an engine that is not present is a RuntimeError that
    says why and how to get it.

    >>> pick("pure").name
    'pure'
    >>> pick("fast")
    Traceback (most recent call last):
    ValueError: engine must be one of native, numpy, pure, got 'fast'
    """
    if engine is not None:
        return _asked("engine", engine, ", or leave engine out")
    wish = os.environ.get("EDGEFOREST_ENGINE")
    return _asked("EDGEFOREST_ENGINE", wish, ", or unset EDGEFOREST_ENGINE") if wish else _fastest()


def _asked(what: str, engine: str, advice: str) -> Engine:
    if engine not in NAMES:
        raise ValueError(f"{what} must be one of {', '.join(NAMES)}, got {engine!r}")
    return _engine(engine, advice)


def _fastest() -> Engine:
    """The first that can be used; those after it are not even imported, since NumPy takes long."""
    for engine in NAMES[:-1]:
        try:
            return _engine(engine)
        except Absent as error:
            if error.broken:  # who installed it expects its speed
                warnings.warn(str(error), RuntimeWarning, stacklevel=4)
    return core_pure.ENGINE


Forest.adapt = frames.rows_of  # boards have no frames, and so the model itself knows none
Forest.calibration = Forest.twin = Forest.ranges = None
# A board calls those of `sure`, which it loads then: it has no room for methods that few ask for.
Forest.predict_interval = sure.predict_interval  # type: ignore[method-assign,assignment]
Forest.predict_set = sure.predict_set  # type: ignore[method-assign,assignment]


def train_steps(
    X: Values | Frame,
    y: Values,
    *,
    engine: Name | None = None,
    n_jobs: int | None = None,
    **options: Unpack[Options],
) -> Training:
    """Training that gives control back between steps: see `Training` for it and its options.

    X may be a frame of pandas, polars or Arrow: its names are kept, categories and text are
    categorical, and y may name one of its columns.

    With native, `n_jobs` trees grow at once, each in a thread of its own: 1 by default, -1 for
    every core. The other engines have one thread. The forest is the same for any number.

    `Budget(seconds=)` begins here. At most half of it is for reading: if there is no time for all
    rows, the forest is trained on random ones of them, as many as there is time for.

    >>> steps = train_steps([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)], n_jobs=2)
    >>> for step in steps:
    ...     pass
    >>> steps.forest().predict([5])
    True
    """
    if is_frame(X):
        X, y = frames.parted(X, y)
    X, y = _flat(X, options), _listed(frames.labels(y))
    if "sample_weight" in options:
        options["sample_weight"] = frames.labels(options["sample_weight"])
    budget = options.get("budget")
    if isinstance(budget, Budget) and budget.seconds is not None:
        from edgeforest.engines import sampling

        make = partial(read, engine=engine, n_jobs=n_jobs)
        return cast("Training", sampling.train_steps(X, y, make, dict(options), budget))
    return read(X, y, engine=engine, n_jobs=n_jobs, **options)


def read(
    X: Values | Frame,
    y: Values,
    *,
    engine: Name | None = None,
    n_jobs: int | None = None,
    **options: Unpack[Options],
) -> Training:
    """A training with all rows read, however long that takes: what `train_steps` goes through."""
    asked: dict[str, Any] = {"engine": pick(engine), "n_jobs": _jobs(n_jobs), **options}
    if is_frame(X):
        X, asked = frames.for_training(X, asked)
    try:
        rows: Any = X
        training = Training(rows, y, **_with_places(asked))
    except TypeError as error:
        if " of target must be a number, got " not in str(error):
            raise
        classes = '; criterion="mse" is for numbers, use criterion="gini" to learn classes'
        raise TypeError(f"{error}{classes}") from None
    _refuse_texts(training.grown)
    return training


def _with_places(options: Any) -> Any:
    """The options with places of categorical features, not names: the core looks up each in turn."""
    given, kinds = options.get("names"), options.get("categorical")
    if not isinstance(given, (list, tuple)) or not isinstance(kinds, (list, tuple)):
        return options
    places = {str(name): f for f, name in reversed(list(enumerate(given)))}
    kinds = [places.get(item, item) if isinstance(item, str) else item for item in kinds]
    return {**options, "categorical": kinds}


def _refuse_texts(forest: Forest, most: int = names.MAX_TEXT) -> None:
    """A ValueError about a name, label or category that is too long, or that no file can hold."""
    names.refuse("the name", forest.names, most)
    names.refuse("the label", forest.classes or (), most)
    for kinds in forest.categories:
        names.refuse("the category", kinds or (), most)


def _flat(X: Any, options: Options) -> Any:
    """A table in one memoryview as a flat buffer of rows, in the same memory; else as it is.

    >>> options = Options()
    >>> len(_flat(memoryview(bytes(6)).cast("B", (2, 3)), options)), options
    (6, {'n_features': 3})
    """
    if isinstance(X, memoryview) and X.ndim == 2 and X.c_contiguous and X.nbytes:
        plain = X.format in [*"?bBhHiIlLqQfd"] and not options.get("by_column")
        if plain and X.shape and options.get("n_features") is None:
            options["n_features"] = X.shape[1]
            return X.cast("B").cast(X.format)  # type: ignore[call-overload]
    return _listed(X)


def _listed(values: Any) -> Any:
    """The values of a memoryview of several dimensions, which Python cannot index; else the same."""
    if not isinstance(values, memoryview) or values.ndim < 2:
        return values
    try:
        return values.tolist()
    except NotImplementedError as error:
        raise TypeError(f"a memoryview must hold numbers: {error}") from None


def train(
    X: Values | Frame,
    y: Values,
    *,
    engine: Name | None = None,
    n_jobs: int | None = None,
    **options: Unpack[Options],
) -> Forest:
    """Train a forest to the end, or to the end of its budget: see `train_steps`.

    >>> train([[i % 7] for i in range(60)], [i % 7 > 2 for i in range(60)]).predict([[1], [5]])
    [False, True]
    """
    training = train_steps(X, y, engine=engine, n_jobs=n_jobs, **options)
    for _ in training:
        pass
    return training.forest()


def _jobs(n_jobs: int | None) -> int:
    """How many threads that asks for.

    >>> _jobs(None), _jobs(3), _jobs(-1) >= 1
    (1, 3, True)
    """
    if n_jobs is None:
        return 1
    if n_jobs == -1:
        return usable_cores()
    return int(between("n_jobs", n_jobs, 1, 1024, " (-1 stands for every core)"))


def load(source: str | bytes | bytearray | PathLike[str] | Readable) -> Forest:
    """Read a model from a path, an open file or its text; the fastest engine present predicts.

    A file that is not ours, of a newer version, cut short or altered is refused with a ValueError.

    >>> text = train([[1], [2]], ["a", "b"], seed=1).to_json()
    >>> load(text).to_json() == text
    True
    """
    text = bytes(loading.text_of(source))
    forest = ranges.take(loading.load(io.BytesIO(text)), text)
    _refuse_texts(forest, names.MAX_LOADED)
    return with_predictor(forest)


def with_predictor(forest: Forest, engine: Engine | None = None) -> Forest:
    """The same forest; the fastest engine present predicts for it.

    >>> with_predictor(train([[1], [2]], ["a", "b"], engine="pure")).predict([2])
    'b'
    """
    predictor = (engine or pick()).predictor
    forest.predictor = predictor(forest) if predictor else None
    return forest


def revive(text: str, spent: Spent, engine: str | None) -> Forest:
    """A forest from its pickle: any engine opens what another one has packed."""
    forest = load(text)
    forest.spent = spent
    forest.engine = engine
    return forest


def pack(forest: Forest) -> tuple[Any, ...]:
    """What a pickle keeps of a forest.

    >>> import pickle
    >>> forest = train([[1], [2]], ["a", "b"], seed=1)
    >>> pickle.loads(pickle.dumps(forest)).to_json() == forest.to_json()
    True
    """
    return revive, (forest.to_json(), forest.spent, forest.engine)


copyreg.pickle(Forest, pack)

if not TYPE_CHECKING:  # which knows what there is without it

    def __getattr__(attribute: str) -> Any:
        if attribute == "name":  # depends on the environment, so it is looked up every time
            return pick().name
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
