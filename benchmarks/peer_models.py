"""One model of one library, trained and used in a process of its own: what `peers.py` compares.

    python -m benchmarks.peer_models '{"library": "sklearn", ...}'     # as peers.py calls it

The job is JSON; so is the answer: CPU seconds of training (of the clock if there are more threads), the
score on the test rows, peak memory, the size of the model, the speed of prediction.
"""

import argparse
import ctypes
import gc
import json
import math
import pickle
import resource
import statistics
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import edgeforest
from edgeforest import engine

LIBRARIES = {  # module: to install
    "sklearn": "scikit-learn",
    "lightgbm": "lightgbm",
    "ydf": "ydf",
    "fastforest": "fastforest",
    "biosphere": "biosphere",
    "wildwood": "wildwood",
}
PARTS = ("X", "y", "X_test", "y_test")  # of a table, each a file
NO_DEPTH = ("fastforest",)  # libraries whose trees have no limit of depth to set


def installed(library: str) -> str | None:
    """Its version, or None."""
    if library == "edgeforest":
        return edgeforest.__version__
    try:
        return version(LIBRARIES[library])
    except PackageNotFoundError:
        return None


# ---- One measurement, in a process of its own -------------------------------------------------


class Peer:
    form: Any = np.float32  # of the features; None leaves them as they are, bytes or float32

    def __init__(self, job: dict[str, Any]):
        self.job = job
        self.more: dict[str, Any] = {}  # to report besides

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(X)

    def predict_one(self, X: np.ndarray, i: int) -> Any:
        return self.predict(X[i : i + 1])


class EdgeForest(Peer):
    form = None

    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        job = self.job
        options = {"n_trees": trees, "max_depth": job["depth"], "n_jobs": job["threads"]}
        options |= {"criterion": "mse" if job["regression"] else "gini", "seed": job["seed"]}
        training = engine.train_steps(X, y, **options | job["options"])
        for _ in training:
            pass
        self.model = training.forest()
        self.more["insertions"] = self.model.spent.insertions
        self.more["drawn"] = training.sample_size / len(y)

    def predict_one(self, X: np.ndarray, i: int) -> Any:
        return self.model.predict(X[i])

    def size(self) -> int:
        return len(self.model.to_json())


class ScikitLearn(Peer):
    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        from sklearn import ensemble

        job = self.job
        options = {"max_depth": job["depth"], "random_state": job["seed"]}
        if job["kind"] == "HistGradientBoosting":  # its threads: OMP_NUM_THREADS
            options |= {"max_iter": trees, "early_stopping": False}
        else:
            options |= {"n_estimators": trees, "max_features": "sqrt", "n_jobs": job["threads"]}
        task = "Regressor" if job["regression"] else "Classifier"
        self.model = getattr(ensemble, job["kind"] + task)(**options | job["options"]).fit(X, y)

    def size(self) -> int:
        return len(pickle.dumps(self.model))


class LightGBM(Peer):
    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        import lightgbm

        job, depth = self.job, self.job["depth"]
        options = {"max_depth": depth or -1, "num_threads": job["threads"], "seed": job["seed"]}
        options |= {"objective": "regression", "verbosity": -1}
        if not job["regression"]:
            options |= {"objective": "multiclass", "num_class": job["classes"]}
        if job["kind"] == "rf":
            options |= {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.632}
            options |= {"feature_fraction_bynode": int(math.sqrt(X.shape[1])) / X.shape[1]}
            options |= {"num_leaves": min(131072, 2 ** (depth or 17))}
            options |= {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
            if options["num_leaves"] > 1024:  # else it allots a histogram to every possible leaf
                options["histogram_pool_size"] = 1024
        self.model = lightgbm.train(options, lightgbm.Dataset(X, y), trees)

    def predict(self, X: np.ndarray) -> Any:
        answers = self.model.predict(X, num_threads=1)
        return answers if self.job["regression"] else answers.argmax(axis=1)

    def size(self) -> int:
        return len(self.model.model_to_string())


class YDF(Peer):
    form = None

    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        import ydf

        job = self.job
        self.model = ydf.RandomForestLearner(
            label="y",
            task=ydf.Task.REGRESSION if job["regression"] else ydf.Task.CLASSIFICATION,
            num_trees=trees,
            max_depth=-1 if job["depth"] is None else job["depth"] + 1,  # it counts the root
            num_candidate_attributes=int(math.sqrt(X.shape[1])),
            min_examples=1,
            compute_oob_performances=False,
            random_seed=job["seed"],
            num_threads=job["threads"],
        ).train({"x": X, "y": y}, verbose=0)

    def predict(self, X: np.ndarray) -> Any:
        answers = self.model.predict({"x": X}, num_threads=1)
        if self.job["regression"]:
            return answers
        return np.array(self.model.label_classes()).astype(int)[answers.argmax(axis=1)]

    def size(self) -> int:
        return len(self.model.serialize())


class FastForest(Peer):
    """Rust; at most 320 rows a node are looked at. Its trees have no limit of depth."""

    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        import fastforest

        kind = "FastForest" if self.job["regression"] else "FastForestClassifier"
        self.model = getattr(fastforest, kind)(n_trees=trees, seed=self.job["seed"])
        self.framed = bool(np.isnan(X).any())
        self.model.fit(self.frame(X), y)

    def frame(self, X: np.ndarray) -> Any:
        """As it wants missing values: in a frame of pandas."""
        if not self.framed:
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=[f"x{f}" for f in range(X.shape[1])])

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(self.frame(X))

    def size(self) -> int:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.ffm"
            self.model.save(str(path))
            return path.stat().st_size


class Biosphere(Peer):
    """Rust; regressions only, and no missing values: they become the mean of their column."""

    form = np.float64

    def filled(self, X: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(X), self.means, X)

    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        import biosphere

        job = self.job
        self.means = np.nan_to_num(np.nanmean(X, axis=0))
        self.model = biosphere.RandomForest(
            n_estimators=trees,
            max_depth=job["depth"],
            max_features="sqrt",
            random_state=job["seed"],
            n_jobs=job["threads"],
        )
        self.model.fit(self.filled(X), y.astype(np.float64))

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(self.filled(X))

    def size(self) -> None:
        return None  # it cannot be saved


class WildWood(Peer):
    """Python compiled by numba; its answers are averages over the prunings of each tree."""

    def fit(self, X: np.ndarray, y: np.ndarray, trees: int) -> None:
        import wildwood

        job = self.job
        kind = "ForestRegressor" if job["regression"] else "ForestClassifier"
        self.model = getattr(wildwood, kind)(
            n_estimators=trees,
            max_depth=job["depth"],
            max_features=int(math.sqrt(X.shape[1])),
            random_state=job["seed"],
            n_jobs=job["threads"],
        ).fit(X, y)

    def size(self) -> int:
        return len(pickle.dumps(self.model))


def memory(what: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at the peak."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith(what)).split()[1]) / 1024
    except OSError:  # not Linux: the peak since the process began is all there is
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1048576 if sys.platform == "darwin" else 1024)


def clear_memory() -> float:
    """Give free memory back and let the peak start again; returns the megabytes in use."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):  # not Linux, or not allowed
        return memory("VmHWM")
    return memory("VmRSS")


KINDS: dict[str, type[Peer]] = {
    "edgeforest": EdgeForest,
    "sklearn": ScikitLearn,
    "lightgbm": LightGBM,
    "ydf": YDF,
    "fastforest": FastForest,
    "biosphere": Biosphere,
    "wildwood": WildWood,
}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train and use one model, in this process."""
    peer = KINDS[job["library"]](job)
    X, y, X_test, truth = (np.load(Path(job["folder"]) / f"{part}.npy") for part in PARTS)
    X, y = np.array(X[: job["rows"]], peer.form), y[: job["rows"]]
    X_test = np.asarray(X_test, peer.form)
    peer.fit(X[:500], y[:500], 1)
    before = clear_memory()
    alone = job["threads"] == 1
    clock = time.process_time if alone else time.perf_counter
    began = clock()
    peer.fit(X, y, job["trees"])
    seconds = clock() - began
    result = {"seconds": seconds, "peak_mb": max(0.0, memory("VmHWM") - before), **peer.more}
    passes: list[float] = []
    while not passes or (alone and sum(passes) < 0.5 and len(passes) < 5):
        began = clock()
        answers = peer.predict(X_test)
        passes.append(clock() - began)
    loss = np.asarray(answers, float) - truth
    loss = loss * loss if job["regression"] else (loss != 0).astype(float)
    result["score"] = float(loss.mean() if job["regression"] else 1 - loss.mean())
    result["score_error"] = float(loss.std() / math.sqrt(len(loss)))
    result["bytes"] = peer.size()
    if alone:
        began, calls = clock(), 0
        while calls < 20 or (calls < 3000 and clock() - began < 0.5):
            peer.predict_one(X_test, calls % len(truth))
            calls += 1
        result["one_us"] = (clock() - began) / calls * 1e6
        result["rows_s"] = len(truth) / statistics.median(passes)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", type=json.loads, help="what to train, as JSON")
    job = parser.parse_args().job
    if job.get("limit"):
        most = math.ceil(
            job["limit"]
        )  # SIGXCPU, which says why; at the harder limit SIGKILL, which does not
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 10))
    print(json.dumps(measure(job)))


if __name__ == "__main__":
    main()
