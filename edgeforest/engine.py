"""Pick the engine that trains: native (C), numpy or pure, the fastest that is present.

All of them grow the same forest from the same data, options and seed. `engine=` of a call, or
else the environment variable EDGEFOREST_ENGINE, asks for one by name.

>>> from edgeforest import engine
>>> engine.name in engine.present()
True
"""

import os
from importlib import import_module
from typing import Any

from edgeforest import core_pure
from edgeforest.core_pure import Forest, Training

NAMES = ("native", "numpy", "pure")  # fastest first
_HOW = {
    "native": "it needs a C compiler when edgeforest is installed: install one (apt install gcc), "
    "then install edgeforest again",
    "numpy": "install NumPy (pip install numpy)",
}


def _module(name: str) -> Any:
    return import_module(f"edgeforest.core_{name}")


def present() -> list[str]:
    """The engines that can be used here, fastest first."""
    found = []
    for name in NAMES:
        try:
            _module(name)
        except ImportError:
            continue
        found.append(name)
    return found


def pick(name: str | None = None) -> Any:
    """The module of the engine of that name, of EDGEFOREST_ENGINE, or of the fastest present."""
    asked = name or os.environ.get("EDGEFOREST_ENGINE")
    if not asked:
        return _module(present()[0])
    if asked not in NAMES:
        what = "engine" if name else "EDGEFOREST_ENGINE"
        raise ValueError(f"{what} must be one of {', '.join(NAMES)}, got {asked!r}")
    try:
        return _module(asked)
    except ImportError as error:
        raise RuntimeError(
            f"the {asked} engine is not present ({error}); {_HOW[asked]}, or leave engine out"
        ) from None


def train_steps(
    X: Any, y: Any, *, engine: str | None = None, n_jobs: int | None = None, **options: Any
) -> Training:
    """Training that gives control back between rounds: see `Training` for it and its options.

    `n_jobs` trees grow at once where the engine has threads (native); -1 stands for every core.
    The forest is the same for any number.
    """
    maker: Any = pick(engine).Training
    jobs = _jobs(n_jobs)
    if maker.engine == "native":
        options["n_jobs"] = jobs
    training: Training = maker(X, y, **options)
    return training


def train(
    X: Any, y: Any, *, engine: str | None = None, n_jobs: int | None = None, **options: Any
) -> Forest:
    """Train a forest to the end, or to the end of its budget: see `train_steps`."""
    training = train_steps(X, y, engine=engine, n_jobs=n_jobs, **options)
    for _ in training:
        pass
    return training.forest()


def _jobs(n_jobs: int | None) -> int:
    if n_jobs == -1:
        return os.cpu_count() or 1
    return core_pure._between("n_jobs", n_jobs or 1, 1, 1024, " (or -1 for every core)")


def load(source: Any) -> Forest:
    """Read a model: see `core_pure.load`. It predicts with the fastest engine present."""
    return core_pure.load(source, pick().Forest)


def __getattr__(attribute: str) -> Any:
    if attribute == "name":  # of the engine that is used when nothing else is said
        return pick().Training.engine
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")
