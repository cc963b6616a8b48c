"""EdgeForest beside scikit-learn, LightGBM and YDF in one run, with what each of them costs.

    python -m benchmarks.peers --quick                   # two minutes, small cases
    python -m benchmarks.peers --out results.md          # all cases, hours; also results.json
    python -m benchmarks.peers --case mnist-20x8 --case air-20x8 --repeat 5

It needs `pip install numpy scikit-learn lightgbm ydf`; a library that is absent is left out. Real
data is used where it is found (see data.py), generated data of the same shape otherwise.

Every figure comes from a process of its own that loads the data, trains a tiny model to wake the
library up, trains once, and predicts. A round is one such process for every row of a table;
`--repeat` rounds are made, so that all of them see the same noise. The forests of all libraries
have the same number of trees, the same depth, the square root of the features tried at a split
and leaves of one row or more; boosting gets as many rounds as there are trees. All else is the
library's own default.
"""

import argparse
import ctypes
import gc
import json
import math
import os
import pickle
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import edgeforest
from benchmarks import command
from benchmarks.data import TABLES
from edgeforest import engine

LIBRARIES = {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "ydf": "ydf"}  # module: to install
REFERENCE = ("scikit-learn RandomForest", 1)  # what times are compared with: model, threads
PARTS = ("X", "y", "X_test", "y_test")  # of a table, each a file
STEPS = 6  # times that our forest may grow by half to reach a peer's accuracy


@dataclass
class Case:
    table: str
    trees: int
    depth: int | None
    rows: int | None = None  # only that many rows
    small: bool = False  # small enough for pure Python


CASES = {
    "mnist-5x5": Case("mnist", 5, 5, small=True),
    "mnist-20x8": Case("mnist", 20, 8),
    "mnist-50x16": Case("mnist", 50, 16),
    "mnist-20xall": Case("mnist", 20, None),
    "air-20x8": Case("air", 20, 8),
    "air-50x16": Case("air", 50, 16),
    "made-20x8": Case("made", 20, 8),
}
QUICK = {
    "mnist-quick-5x5": Case("mnist", 5, 5, rows=8_000, small=True),
    "air-quick-10x8": Case("air", 10, 8, rows=40_000),
}


@dataclass
class Model:
    """One model of the tables; it has a line for each number of threads."""

    name: str
    library: str
    kind: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    threads: tuple[int, ...] = (1, 2)
    role: str = "peer"  # or "ours", "other engine", "exact", "fixed", "max_samples"


def fixed_rows_options() -> tuple[int, dict[str, Any]]:
    """HOOK: options of ours that count a fixed number of rows at every node, and that number.

    With z=0 a race is decided after its first round, and `batch` is to set the rows of that. As
    long as Training has no such option it is 256 rows, and the table says so.
    """
    known = engine.core_pure.Training.__init__.__kwdefaults__
    if "batch" in known:
        return 1024, {"z": 0.0, "batch": 1024}
    return engine.core_pure.BATCH, {"z": 0.0}


def models(case: Case) -> list[Model]:
    """What a case measures: ours, the three controls, the peers."""
    best, *others = engine.present()
    both = (1, 2) if best == "native" else (1,)  # the others have no threads
    fixed, options = fixed_rows_options()
    ours = [Model(f"EdgeForest {best}", "edgeforest", "", {"engine": best}, both, "ours")]
    for name, more, role in (
        ("exact splitter", {"splitter": "exact"}, "exact"),
        (f"fixed {fixed:,} rows a node", options, "fixed"),
    ):
        name = f"control: EdgeForest {best}, {name}"
        ours.append(Model(name, "edgeforest", "", {"engine": best, **more}, (1,), role))
    for name in others:
        if name == "numpy" or case.small:
            name, more = f"EdgeForest {name}", {"engine": name}
            ours.append(Model(name, "edgeforest", "", more, (1,), "other engine"))
    name, kind = REFERENCE[0], "RandomForest"
    peers = [
        Model(name, "sklearn", kind),
        *ours,  # next to the reference, in time too
        Model("control: " + name, "sklearn", kind, threads=(1,), role="max_samples"),
        Model("scikit-learn ExtraTrees", "sklearn", "ExtraTrees"),
        Model("scikit-learn HistGradientBoosting", "sklearn", "HistGradientBoosting"),
        Model("LightGBM rf", "lightgbm", "rf"),
        Model("LightGBM gbdt", "lightgbm", "gbdt"),
        Model("YDF RandomForest", "ydf"),
    ]
    if case.table == "air":
        # YDF really tries 5 features where it is told 4: so do we here.
        more = {"engine": best, "max_features": 5}
        peers.append(
            Model(f"EdgeForest {best}, 5 features", "edgeforest", "", more, (1,), "other engine")
        )
        # Its own default for regressions: more work, and better.
        peers.append(Model(name + ", all features", "sklearn", kind, {"max_features": 1.0}))
    return [m for m in peers if installed(m.library)]


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


def memory(what: str) -> float:
    """Megabytes of this process: VmRSS now, VmHWM at the peak."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith(what)).split()[1]) / 1024
    except OSError:  # not Linux: the peak since the process began is all there is
        import resource

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


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Train and use one model, in this process."""
    kinds = {"edgeforest": EdgeForest, "sklearn": ScikitLearn, "lightgbm": LightGBM, "ydf": YDF}
    peer = kinds[job["library"]](job)
    X, y, X_test, truth = (np.load(Path(job["folder"]) / f"{part}.npy") for part in PARTS)
    X, y = np.array(X[: job["rows"]], peer.form), y[: job["rows"]]
    X_test = np.asarray(X_test, peer.form)
    peer.fit(X[:64], y[:64], 1)
    before = clear_memory()
    began = time.perf_counter()
    peer.fit(X, y, job["trees"])
    seconds = time.perf_counter() - began
    result = {"seconds": seconds, "peak_mb": max(0.0, memory("VmHWM") - before), **peer.more}
    alone = job["threads"] == 1  # prediction is timed on one thread
    passes: list[float] = []
    while not passes or (alone and sum(passes) < 0.5 and len(passes) < 5):
        began = time.perf_counter()
        answers = peer.predict(X_test)
        passes.append(time.perf_counter() - began)
    loss = np.asarray(answers, float) - truth
    loss = loss * loss if job["regression"] else (loss != 0).astype(float)
    result["score"] = float(loss.mean() if job["regression"] else 1 - loss.mean())
    result["score_error"] = float(loss.std() / math.sqrt(len(loss)))
    result["bytes"] = peer.size()
    singles: list[float] = []
    while alone and (len(singles) < 20 or (len(singles) < 300 and sum(singles) < 1.0)):
        began = time.perf_counter()
        peer.predict_one(X_test, len(singles))
        singles.append(time.perf_counter() - began)
    if alone:
        result["one_us"] = statistics.median(singles) * 1e6
        result["rows_s"] = len(truth) / statistics.median(passes)
    return result


def run(job: dict[str, Any], limit: float) -> dict[str, Any]:
    """The result of `measure` in a fresh process, or {"error": why there is none}."""
    threads = {f"{name}_NUM_THREADS": str(job["threads"]) for name in ("OMP", "OPENBLAS", "MKL")}
    call = [sys.executable, "-m", "benchmarks.peers", "--one", json.dumps(job)]
    try:
        done = subprocess.run(
            call, env=os.environ | threads, capture_output=True, text=True, timeout=limit
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {limit:.0f} s"}
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"error": said[-1][:200]}


# ---- A case: rounds, medians, who is better ---------------------------------------------------

COLUMNS = (  # key, heading, format, +1 if more is better and -1 if less is
    ("seconds", "time s", "{:.3g}", -1),
    ("faster", "x faster than scikit-learn", "{:.2f}", 0),
    ("score", "accuracy", "{:.4f}", 1),
    ("insertions", "insertions", "{:,.0f}", -1),
    ("peak_mb", "peak MB above data", "{:.1f}", -1),
    ("bytes", "model bytes", "{:,.0f}", -1),
    ("one_us", "one row us", "{:,.0f}", -1),
    ("rows_s", "rows/s", "{:,.0f}", 1),
)


def columns(regression: bool) -> list[tuple[str, str, str, int]]:
    """The columns of a table, with its kind of score."""
    mse = ("score", "MSE", "{:.1f}", -1)
    return [mse if regression and c[0] == "score" else c for c in COLUMNS]


def comparable_share(ours: dict[str, Any], exact: dict[str, Any]) -> float:
    """The share of rows with which scikit-learn counts about as many values as our race did:
    the share that a tree of ours draws, times our insertions over those of our exact splitter."""
    if "error" in ours or "error" in exact:
        return 0.5
    return round(min(1.0, ours["drawn"] * ours["insertions"] / exact["insertions"]), 4)


def measure_case(
    name: str, case: Case, table: dict[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """All rounds of one case: what goes into its table."""

    def run_one(model: Model, threads: int, seed: int, trees: int = case.trees) -> dict[str, Any]:
        job = {k: getattr(model, k) for k in ("library", "kind", "options")}
        job |= {"trees": trees, "depth": case.depth, "threads": threads, "seed": seed}
        got = run(table | job | {"rows": case.rows}, args.limit)
        said = got.get("error") or f"{got['seconds']:.2f} s, {got['score']:.4f}"
        about = f"{name}, seed {seed}: {model.name}, {trees} trees, {threads} threads: {said}"
        print(about, file=sys.stderr, flush=True)
        return got

    lines: dict[tuple[str, int], dict[str, Any]] = {}
    listed = [
        m
        for m in models(case)
        if m.role != "peer"  # ours and the controls are in every table
        or m.name == REFERENCE[0]
        or not args.peer
        or any(part.lower() in m.name.lower() for part in args.peer)
    ]
    for seed in range(args.repeat):
        seconds = math.nan  # of the reference in this round
        for model in listed:
            if model.role == "max_samples" and not model.options:
                first = {line["role"]: line["runs"][0] for line in lines.values()}
                share = comparable_share(first["ours"], first["exact"])
                model.options = {"max_samples": share}
                model.name += f", max_samples={share}"
            for threads in model.threads:
                key = (model.name, threads)
                about = {"model": model.name, "threads": threads, "role": model.role, "runs": []}
                line = lines.setdefault(key, about)
                if "error" in line:
                    continue
                got = run_one(model, threads, seed)
                line["runs"].append(got)
                if "error" in got:
                    line["error"] = got["error"]
                    continue
                if key == REFERENCE:
                    seconds = got["seconds"]
                got["faster"] = seconds / got["seconds"]
    for line in lines.values():
        for key in [*(c[0] for c in COLUMNS), "score_error"]:
            values = [run[key] for run in line["runs"] if key in run and "error" not in line]
            middle = statistics.mean if key == "score" else statistics.median
            line[key] = middle(values) if values else None
            if key == "score" and len(values) > 1:
                line["seed_error"] = statistics.stdev(values) / math.sqrt(len(values))
    result = {k: table[k] for k in ("about", "regression", "features", "test_rows")}
    result |= {"case": name, "trees": case.trees, "depth": case.depth}
    result |= {"rows": case.rows or table["all_rows"], "lines": list(lines.values())}
    ours = next(m for m in listed if m.role == "ours")
    steps = 4 if args.quick else STEPS
    result["equal"] = equal_accuracy(result, steps, lambda trees: run_one(ours, 1, 0, trees))
    return result


def equal_accuracy(
    result: dict[str, Any], steps: int, grow: Callable[[int], dict[str, Any]]
) -> list[dict[str, Any]]:
    """For each peer that is more accurate: the smallest forest of ours that is as accurate.

    Ours grows by half at each step, as long as it is faster than some peer that it has not reached.
    """
    sign = -1 if result["regression"] else 1
    ours = next(line for line in result["lines"] if line["role"] == "ours")
    alone = [line for line in result["lines"] if line["threads"] == 1 and "error" not in line]
    last = ours | {"trees": result["trees"]}
    ahead = [
        {"peer": line, "ours": last, "reached": False}
        for line in alone
        if line["role"] in ("peer", "max_samples") and ours in alone
        if sign * line["score"] > sign * ours["score"]
    ]
    for _ in range(steps):
        left = [a for a in ahead if not a["reached"]]
        if all(a["peer"]["seconds"] < last["seconds"] for a in left):
            break
        trees = math.ceil(last["trees"] * 1.5)
        last = grow(trees) | {"trees": trees}
        if "error" in last:
            break
        for a in left:
            a["ours"], a["reached"] = last, sign * last["score"] >= sign * a["peer"]["score"]
    keys = ("model", "trees", "seconds", "score")
    for a in ahead:
        a |= {who: {k: a[who][k] for k in keys if k in a[who]} for who in ("peer", "ours")}
    return ahead


LOSSES = {  # title: who is better, in which columns
    "Where we lose": (("peer", "max_samples"), [c[0] for c in COLUMNS]),
    "Where our own controls beat the race": (
        ("exact", "fixed"),
        ("seconds", "score", "insertions"),
    ),
}


def losses(result: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """Every column of a case in which others have a better figure than ours, with all that do."""
    roles, keys = LOSSES[title]
    found = []
    for ours in [line for line in result["lines"] if line["role"] == "ours"]:
        others = [r for r in result["lines"] if r["role"] in roles]
        others = [r for r in others if r["threads"] == ours["threads"]]
        about = {"case": result["case"], "threads": ours["threads"]}
        if "error" in ours:
            names = [r["model"] for r in others if "error" not in r]
            found.append(about | {"column": "all", "ours": ours["error"], "better": names})
        for key, heading, form, sign in columns(result["regression"]):
            if not sign or key not in keys or ours[key] is None:
                continue
            mine = form.format(ours[key])
            better = [r for r in others if r[key] is not None and sign * r[key] > sign * ours[key]]
            better.sort(key=lambda r: -sign * r[key])
            texts = []
            for r in better:
                noise = [x.get(k, 0.0) for x in (r, ours) for k in ("score_error", "seed_error")]
                doubt = key == "score" and abs(r[key] - ours[key]) < 2 * math.hypot(*noise)
                if form.format(r[key]) != mine:
                    text = f"{r['model'].removeprefix('control: ')}: {form.format(r[key])}"
                    texts.append(text + " (within two standard errors)" * doubt)
            if texts:
                found.append(about | {"column": heading, "ours": mine, "better": texts})
    return found


# ---- The report -------------------------------------------------------------------------------


def show(form: str, value: float | None) -> str:
    return "" if value is None else form.format(value)


def as_table(headings: list[str], rows: list[list[Any]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def case_report(result: dict[str, Any]) -> str:
    """A case in Markdown: its table, and the time at equal accuracy."""
    listed = columns(result["regression"])
    rows = []
    for line in result["lines"]:
        cells = [show(form, line[key]) for key, _, form, _ in listed]
        if "error" in line:
            cells[0] = line["error"]
        rows.append([line["model"], line["threads"], *cells])
    depth = "unlimited depth" if result["depth"] is None else f"depth {result['depth']}"
    text = (
        f"## {result['case']}\n\n{result['about']}: {result['rows']:,} rows x "
        f"{result['features']}, {result['test_rows']:,} to test; {result['trees']} trees, {depth}.\n\n"
    )
    text += as_table(["model", "threads", *(c[1] for c in listed)], rows)
    _, score, form, _ = listed[2]
    if not result["equal"]:
        failed = [x for x in result["lines"] if x["role"] == "ours" and "error" in x]
        why = "ours failed" if failed else "no peer is better on one thread"
        return text + f"\nTime at equal {score}: {why}.\n"
    rows = []
    for a in result["equal"]:
        peer, ours = a["peer"], a["ours"]
        row = [peer["model"], form.format(peer["score"]), f"{peer['seconds']:.3g}"]
        row += [ours["trees"], form.format(ours["score"]), f"{ours['seconds']:.3g}"]
        rows.append([*row, "yes" if a["reached"] else "not reached"])
    headings = ["better peer", score, "its time s", "our trees", score, "our time s", "as good"]
    return f"{text}\nTime at equal {score}, one thread:\n\n" + as_table(headings, rows)


def about_run() -> dict[str, Any]:
    """The machine, the versions and the command."""
    chip = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        chip = next((x.split(": ", 1)[1] for x in lines if x.startswith("model name")), chip)
    except OSError:
        pass
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {name: installed(name) for name in ("edgeforest", *LIBRARIES)}
    return {
        "command": command(),
        "machine": f"{chip}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
        "engines": engine.present(),
        "missing": [f"pip install {p}" for m, p in LIBRARIES.items() if not installed(m)],
    }


NOTES = """\
Rounds: {repeat}, each with another seed and each line in a fresh process. Time, memory, bytes and
speed of prediction are medians, the score is the mean. "x faster": the time of scikit-learn's
RandomForest on one thread in the same round, divided by the line's. Insertion: one value counted
into one histogram; peers do not tell theirs. Peak memory: above what is in use before training,
which includes the data (bytes as bytes for EdgeForest and YDF, float32 for the others). Model:
our JSON, scikit-learn's pickle, LightGBM's text, YDF's serialized model. One row and rows/s:
through the library's own predict, on one thread. The controls show what the race adds: our exact
splitter; a fixed number of rows a node; scikit-learn with as many rows a tree (max_samples) as let
it count about as many values as our race did. LightGBM grows a tree for every class, and boosting
keeps its 31 leaves. YDF tries one feature more at a split than it is told. Standard errors are
those of the test rows, and from two rounds on those of the seeds, too.
"""


def report(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in run["versions"].items() if v)
    text = (
        f"# EdgeForest and its peers\n\n`{run['command']}`\n\n{run['machine']}; load before the run "
        f"{run['load']}. {versions}; engines: {', '.join(run['engines'])}.\n\n"
    )
    for advice in run["missing"]:
        text += f"A library is not here and is left out: `{advice}`.\n\n"
    text += NOTES.format(**run) + "\n" + "\n".join(map(case_report, run["cases"]))
    headings = ["case", "threads", "column", "ours", "better"]
    for title, found in run["losses"].items():
        rows = [[*list(f.values())[:-1], ", ".join(f["better"])] for f in found]
        text += f"\n## {title}\n\n" + (as_table(headings, rows) if rows else "Nowhere.\n")
    return text


def save_table(name: str, given: str | None, folder: Path) -> dict[str, Any]:
    """Write a table as .npy files, for the processes that measure; returns what there is to know."""
    table = TABLES[name](given)
    folder.mkdir()
    for part in PARTS:
        np.save(folder / f"{part}.npy", np.ascontiguousarray(getattr(table, part)))
    return {
        "folder": str(folder),
        "about": table.about,
        "regression": table.regression,
        "classes": 0 if table.regression else int(table.y.max()) + 1,
        "all_rows": len(table.y),
        "features": table.X.shape[1],
        "test_rows": len(table.y_test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cases = CASES | QUICK
    add = parser.add_argument
    add("--quick", action="store_true", help="small cases, one round: two minutes")
    about = "only this one; may be given again: " + ", ".join(cases)
    add("--case", action="append", choices=list(cases), metavar="NAME", help=about)
    about = "only peers whose name holds this, beside RandomForest; may be given again"
    add("--peer", action="append", metavar="TEXT", help=about)
    add("--repeat", type=int, metavar="ROUNDS", help="rounds (3, with --quick 1)")
    add("--data", metavar="FOLDER", help="where the real data is (../shared/data)")
    add("--out", metavar="FILE.md", help="write the report here, and all figures to FILE.json")
    add("--limit", type=float, default=600, help="seconds until a model is given up (600)")
    add("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(json.loads(args.one))))
        return
    if not installed("sklearn"):
        sys.exit("all times are compared with scikit-learn's: pip install scikit-learn")
    args.repeat = args.repeat or (1 if args.quick else 3)
    run = about_run() | {"repeat": args.repeat, "cases": []}
    for advice in run["missing"]:
        print(f"a library is not here and is left out: {advice}", file=sys.stderr)
    tables: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.case or list(QUICK if args.quick else CASES):
            kind = cases[name].table
            if kind not in tables:
                tables[kind] = save_table(kind, args.data, Path(folder) / kind)
            run["cases"].append(measure_case(name, cases[name], tables[kind], args))
            run["losses"] = {t: [x for r in run["cases"] for x in losses(r, t)] for t in LOSSES}
            if args.out:  # after each case: what is measured is not lost
                Path(args.out).write_text(report(run))
                Path(args.out).with_suffix(".json").write_text(json.dumps(run, indent=1) + "\n")
    print(report(run))


if __name__ == "__main__":
    main()
