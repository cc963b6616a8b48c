"""Accuracy with default options: ours beside scikit-learn's, the same rows and seeds for both.

    python -m benchmarks.accuracy [--data FOLDER] [--seeds 10] [--trees 100] [--sets digits,bike]

Seven tables, each split at random into 70 % for training and 30 % for the test, anew for every seed:
accuracy, or R2 of a regression. The occupancy log has its own test files, of two other weeks. The
difference is the mean over the seeds of ours less scikit-learn's, with its standard error. LightGBM's
random forest and YDF's follow if they are installed.

adult.csv, covtype.csv, bike_hour.csv (UCI, each with a header) and the folder occupancy are looked for
where data.py looks. Where one is missing a generated table of the same kind takes its place, and is
named so; the occupancy log is left out.
"""

import argparse
import csv
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data

BIKE = [
    "season",
    "yr",
    "mnth",
    "hr",
    "holiday",
    "weekday",
    "workingday",
    "weathersit",
    "temp",
    "atemp",
    "hum",
    "windspeed",
]
Part = tuple[Any, Any]  # X, y


def read(path: Path, target: str, keep: list[str] | None = None) -> tuple[Any, list[str]]:
    """A table with a header: text as the places of its sorted words, and the target as it is."""
    with path.open(newline="") as stream:
        names, *lines = csv.reader(stream)
    kept = [f for f, name in enumerate(names) if name != target and (not keep or name in keep)]
    X = np.column_stack([numbers([line[f] for line in lines]) for f in kept])
    return X, [line[names.index(target)] for line in lines]


def numbers(values: list[str]) -> Any:
    present = sorted(set(values))
    try:
        place = {v: float(v) for v in present}
    except ValueError:
        place = {v: float(i) for i, v in enumerate(present)}
    return np.array([place[v] for v in values], np.float32)


def table(name: str, folder: str | None) -> tuple[str, bool, Any, Any]:
    """What it is, whether it is a regression, X and y."""
    from sklearn import datasets

    if name in ("digits", "wine", "breast_cancer", "diabetes"):
        X, y = getattr(datasets, "load_" + name)(return_X_y=True)
        return name, name == "diabetes", X.astype(np.float32), y
    file, target = {
        "bike": ("bike_hour.csv", "cnt"),
        "covertype": ("covtype.csv", "Cover_Type"),
        "adult": ("adult.csv", "income"),
    }[name]
    path = data.find(file, folder)
    if path and name == "bike":
        X, counts = read(path, target, BIKE)
        return name, True, X, np.array(counts, float)
    if path:
        X, labels = read(path, target)
        return name, False, X, np.unique(labels, return_inverse=True)[1]
    if name == "bike":
        X, y = datasets.make_friedman1(17_000, 12, noise=1.0, random_state=0)
    else:
        shape = {"covertype": (15_000, 54, 7), "adult": (30_000, 14, 2)}[name]
        X, y = datasets.make_classification(
            *shape[:2], n_informative=10, n_classes=shape[2], flip_y=0.1, random_state=0
        )
    return f"generated, for {name}", name == "bike", X.astype(np.float32), y


def occupancy(folder: str | None) -> list[Part] | None:
    """The training file and the two test files, without the date."""
    path = data.find("occupancy", folder)
    if not path:
        return None
    parts = []
    for name in ("datatraining", "datatest", "datatest2"):
        with (path / f"{name}.txt").open(newline="") as stream:
            rows = [line[-6:] for line in csv.reader(stream)][1:]
        values = np.array(rows, np.float32)
        parts.append((values[:, :-1], values[:, -1].astype(int)))
    return parts


def learners(trees: int) -> dict[str, Callable[..., Any]]:
    """What trains on (X, y, regression, seed) and returns something that predicts."""
    from sklearn import ensemble

    import edgeforest

    def ours(X: Any, y: Any, regression: bool, seed: int) -> Any:
        criterion: Any = "mse" if regression else "gini"
        return edgeforest.train(X, y, criterion=criterion, n_trees=trees, seed=seed)

    def theirs(X: Any, y: Any, regression: bool, seed: int) -> Any:
        kind = ensemble.RandomForestRegressor if regression else ensemble.RandomForestClassifier
        return kind(trees, max_features="sqrt", random_state=seed, n_jobs=-1).fit(X, y)

    found: dict[str, Callable[..., Any]] = {"EdgeForest": ours, "scikit-learn": theirs}
    if importlib.util.find_spec("lightgbm"):

        def light(X: Any, y: Any, regression: bool, seed: int) -> Any:
            import lightgbm

            kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
            options: dict[str, Any] = {"subsample": 0.63, "subsample_freq": 1, "verbose": -1}
            return kind("rf", n_estimators=trees, random_state=seed, **options).fit(X, y)

        found["LightGBM rf"] = light
    if importlib.util.find_spec("ydf"):

        def ydf(X: Any, y: Any, regression: bool, seed: int) -> Any:
            return Ydf(X, y, regression, seed, trees)

        found["YDF"] = ydf
    return found


class Ydf:
    """YDF's random forest, with a `predict` for arrays."""

    def __init__(self, X: Any, y: Any, regression: bool, seed: int, trees: int) -> None:
        import ydf

        task = ydf.Task.REGRESSION if regression else ydf.Task.CLASSIFICATION
        learner = ydf.RandomForestLearner(
            label="y", task=task, num_trees=trees, random_seed=seed, compute_oob_performances=False
        )
        self.regression, self.classes = regression, np.unique(y)
        self.model = learner.train({"x": X, "y": y}, verbose=0)

    def predict(self, X: Any) -> Any:
        found = self.model.predict({"x": X})
        if self.regression:
            return found
        if found.ndim == 1:
            return self.classes[(found > 0.5).astype(int)]
        return self.classes[found.argmax(axis=1)]


def score(model: Any, part: Part, regression: bool) -> float:
    found, y = np.array(model.predict(part[0])), part[1]
    if regression:
        return float(1.0 - np.mean((found - y) ** 2) / np.var(y))
    return float(np.mean(found == y))


def show(about: str, scores: dict[str, list[float]]) -> None:
    ours = np.array(scores["EdgeForest"])
    beside = ours - np.array(scores["scikit-learn"])
    error = beside.std(ddof=1) / len(beside) ** 0.5 if len(beside) > 1 else 0.0
    cells = [f"{np.mean(values):.4f}" for values in scores.values()]
    print(f"| {about} | {' | '.join(cells)} | {beside.mean():+.4f} ± {error:.4f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = "digits,wine,breast_cancer,diabetes,bike,covertype,adult,occupancy"
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--sets", default=names)
    args = parser.parse_args()
    kinds = learners(args.trees)
    print("### Agreement\n")
    print(f"| set | {' | '.join(kinds)} | less scikit-learn |\n|---|{'---|' * (len(kinds) + 1)}")
    for name in args.sets.split(","):
        if name == "occupancy":
            parts, about, regression = occupancy(args.data), name, False
            if parts is None:
                print("| occupancy: not found |")
                continue
        else:
            about, regression, X, y = table(name, args.data)
        scores: list[dict[str, list[float]]] = [{kind: [] for kind in kinds} for _ in range(2)]
        for seed in range(args.seeds):
            if name != "occupancy":
                order = np.random.default_rng(seed).permutation(len(y))
                cut = len(y) * 7 // 10
                parts = [(X[rows], y[rows]) for rows in (order[:cut], order[cut:])]
            assert parts is not None
            for kind, fit in kinds.items():
                model = fit(*parts[0], regression, seed)
                for noted, part in zip(scores, parts[1:], strict=False):
                    noted[kind].append(score(model, part, regression))
        for i, noted in enumerate(scores[: len(parts or ()) - 1]):
            show(f"{about}, file {i + 1}" if name == "occupancy" else about, noted)


if __name__ == "__main__":
    main()
