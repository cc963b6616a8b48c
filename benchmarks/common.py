"""What several benchmarks say alike: the machine, the versions, a mean with its error."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

import edgeforest


def about(*packages: str) -> str:
    """One line: the day, the machine, and the versions of Python, this package and those named."""
    versions = [f"Python {platform.python_version()}", f"EdgeForest {edgeforest.__version__}"]
    versions += [f"{name} {version(name)}" for name in ("numpy", *packages)]
    day = datetime.now(UTC).date().isoformat()
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{day}; {machine}; {', '.join(versions)}; engine {edgeforest.engine.name}, one thread"


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """The mean and its standard error, which is 0 for a single value."""
    v = np.array(list(values), float)
    return float(v.mean()), float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else 0.0


def with_error(values: Iterable[float], digits: int = 3) -> str:
    """Such as `0.773 ± 0.004`."""
    mean, error = mean_and_error(values)
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"


def score_of(predicted: object, truth: np.ndarray, regression: bool) -> float:
    """The accuracy, or the mean squared error of a regression."""
    found = np.array(predicted)
    return float(np.mean((found - truth) ** 2 if regression else found == truth))
