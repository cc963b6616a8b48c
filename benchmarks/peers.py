"""EdgeForest beside other libraries in one run, with what each of them costs.

    python -m benchmarks.peers --quick                   # small cases
    python -m benchmarks.peers --out results.md          # the usual cases; also results.json
    python -m benchmarks.peers --case mnist-50x16 --case air-50x16 --repeat 5

scikit-learn, LightGBM, YDF, fastforest, biosphere and wildwood: `pip install '.[bench]'` in a checkout;
a library that is absent is left out, and named. Real data is used where it is found (see data.py),
generated data of the same shape otherwise.

Every figure comes from a process of its own (peer_models.py) that loads the data, trains a tiny model to
wake the library up, trains once, and predicts. Time is CPU seconds on one thread, the least of all rounds:
other programs hardly disturb it. A round is one such process for every row of a table, so that all of them
see the same noise; what takes more than 10 seconds is measured in the first round alone. The forests of
all libraries have the same number of trees, the same depth, the square root of the features tried at a
split and leaves of one row or more; boosting gets as many rounds as there are trees. All else is the
library's own default. fastforest's trees have no depth to set. `--threads` measures two threads as well, by
the clock.
"""

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import command
from benchmarks.data import TABLES
from benchmarks.peer_models import LIBRARIES, PARTS, installed
from edgeforest import engine

REFERENCE = ("scikit-learn RandomForest", 1)  # what times are compared with: model, threads
LADDER = (0.25, 0.5, 1, 1.5, 2, 3, 4.5, 7, 10)  # trees of ours beside those of the case
DEEP = (0.25, 0.5, 1, 2, 4)  # and without a limit of depth


@dataclass
class Case:
    table: str
    trees: int
    depth: int | None
    rows: int | None = None  # only that many rows
    small: bool = False  # small enough for pure Python


CASES = {
    "mnist-20x8": Case("mnist", 20, 8),
    "mnist-10x16": Case("mnist", 10, 16),
    "air-20x8": Case("air", 20, 8),
    "air-10x16": Case("air", 10, 16),
    "made-20x8": Case("made", 20, 8),
}
LARGE = {  # only by name
    "mnist-5x5": Case("mnist", 5, 5, small=True),
    "mnist-50x16": Case("mnist", 50, 16),
    "mnist-20xall": Case("mnist", 20, None),
    "air-50x16": Case("air", 50, 16),
}
QUICK = {
    "mnist-quick-5x5": Case("mnist", 5, 5, rows=8_000),
    "air-quick-10x8": Case("air", 10, 8, rows=40_000),
}
LONG = 10.0  # seconds from which on a model is not trained a second time


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
        Model("fastforest, any depth", "fastforest"),
    ]
    if case not in QUICK.values():  # it compiles itself for half a minute in every process
        peers.append(Model("wildwood", "wildwood"))
    if case.table == "air":
        # YDF really tries 5 features where it is told 4: so do we here.
        more = {"engine": best, "max_features": 5}
        peers.append(
            Model(f"EdgeForest {best}, 5 features", "edgeforest", "", more, (1,), "other engine")
        )
        peers.append(Model("biosphere", "biosphere"))  # which has no classes
        # Its own default for regressions: more work, and better.
        peers.append(Model(name + ", all features", "sklearn", kind, {"max_features": 1.0}))
    return [m for m in peers if installed(m.library)]


def run(job: dict[str, Any], limit: float) -> dict[str, Any]:
    """What peer_models.py says of a job in a fresh process, or {"error": why there is none}."""
    names = ("OMP", "OPENBLAS", "MKL", "RAYON", "NUMBA")
    threads = {f"{name}_NUM_THREADS": str(job["threads"]) for name in names}
    call = [sys.executable, "-m", "benchmarks.peer_models", json.dumps(job | {"limit": limit})]
    too_long = {"error": f"did not end within {limit:.0f} CPU seconds"}
    try:
        done = subprocess.run(
            call, env=os.environ | threads, capture_output=True, text=True, timeout=5 * limit
        )
        if done.returncode == -signal.SIGXCPU:
            return too_long
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return too_long
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"error": said[-1][:200]}


# ---- A case: rounds, medians, who is better ---------------------------------------------------

COLUMNS = (  # key, heading, format, +1 if more is better and -1 if less is
    ("seconds", "CPU s", "{:.3g}", -1),
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

    def run_one(
        model: Model, threads: int, seed: int, trees: int = case.trees, depth: Any = case.depth
    ) -> dict[str, Any]:
        job = {k: getattr(model, k) for k in ("library", "kind", "options")}
        job |= {"trees": trees, "depth": depth, "threads": threads, "seed": seed}
        got = run(table | job | {"rows": case.rows}, args.limit)
        said = got.get("error") or f"{got['seconds']:.2f} s, {got['score']:.4f}"
        about = f"{name}, seed {seed}: {model.name}, {trees} x {depth}, {threads} threads: {said}"
        print(about, file=sys.stderr, flush=True)
        return got

    listed = [
        m
        for m in models(case)
        if m.role != "peer"  # ours and the controls are in every table
        or m.name == REFERENCE[0]
        or not args.peer
        or any(part.lower() in m.name.lower() for part in args.peer)
    ]
    lines: dict[tuple[str, int], dict[str, Any]] = {}
    for seed in range(args.repeat):
        for model in listed:
            if model.role == "max_samples" and not model.options:
                first = {line["role"]: line["runs"][0] for line in lines.values()}
                share = comparable_share(first["ours"], first["exact"])
                model.options = {"max_samples": share}
                model.name += f", max_samples={share}"
            for threads in model.threads if args.threads else (1,):
                about = {"model": model.name, "threads": threads, "role": model.role, "runs": []}
                line = lines.setdefault((model.name, threads), about)
                before = line["runs"][-1] if line["runs"] else {"seconds": 0.0}
                if "error" in before or before["seconds"] > LONG:
                    continue
                line["runs"].append(run_one(model, threads, seed))
    sum_up(lines)
    result = {k: table[k] for k in ("about", "regression", "features", "test_rows")}
    result |= {"case": name, "trees": case.trees, "depth": case.depth}
    result |= {"rows": case.rows or table["all_rows"], "lines": list(lines.values())}
    ours = next(m for m in listed if m.role == "ours")
    skip = 2 if args.quick else 1
    rungs = [(math.ceil(share * case.trees), case.depth) for share in LADDER[::skip]]
    if case.depth is not None:
        rungs += [(math.ceil(share * case.trees), None) for share in DEEP[::skip]]
    result["equal"] = equal_score(
        result, rungs, lambda trees, depth: run_one(ours, 1, 0, trees, depth)
    )
    return result


def sum_up(lines: dict[tuple[str, int], dict[str, Any]]) -> None:
    """Add to each line what its runs say together."""
    for line in lines.values():
        failed = [run["error"] for run in line["runs"] if "error" in run]
        if failed:
            line["error"] = failed[0]
        for key in [*(c[0] for c in COLUMNS), "score_error"]:
            values = [run[key] for run in line["runs"] if run.get(key) is not None and not failed]
            ways = {"score": statistics.mean, "seconds": min}
            line[key] = ways.get(key, statistics.median)(values) if values else None
            if key == "score" and len(values) > 1:
                line["seed_error"] = statistics.stdev(values) / math.sqrt(len(values))
    base = lines[REFERENCE]["seconds"]
    for line in lines.values():
        line["faster"] = base / line["seconds"] if base and line["seconds"] else None


def equal_score(
    result: dict[str, Any],
    rungs: list[tuple[int, int | None]],
    grow: Callable[[int, int | None], dict[str, Any]],
) -> list[dict[str, Any]]:
    """For each peer: the cheapest forest of ours that is at least as good, of some sizes and depths."""
    sign = -1 if result["regression"] else 1
    peers = [
        line
        for line in result["lines"]
        if line["role"] in ("peer", "max_samples") and line["threads"] == 1 and "error" not in line
    ]
    slowest = max(line["seconds"] for line in peers)
    tried: list[dict[str, Any]] = []
    for depth in dict.fromkeys(depth for _, depth in rungs):
        for trees in [trees for trees, d in rungs if d == depth]:
            got = grow(trees, depth)
            if "error" in got:
                break
            tried.append(got | {"trees": trees, "depth": depth})
            if got["seconds"] > slowest:
                break
    found = []
    for peer in peers:
        enough = [one for one in tried if sign * one["score"] >= sign * peer["score"]]
        ours = min(enough, key=lambda one: one["seconds"]) if enough else None
        keys = ("model", "trees", "depth", "seconds", "score")
        found.append(
            {
                "peer": {k: peer[k] for k in keys if k in peer},
                "ours": {k: ours[k] for k in keys if k in ours} if ours else None,
            }
        )
    return found


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
    rows = []
    for pair in result["equal"]:
        peer, ours = pair["peer"], pair["ours"]
        row = [peer["model"], form.format(peer["score"]), f"{peer['seconds']:.3g}"]
        if ours is None:
            rows.append([*row, "not reached", "", "", ""])
            continue
        size = f"{ours['trees']} x {'any' if ours['depth'] is None else ours['depth']}"
        times = f"{peer['seconds'] / ours['seconds']:.1f}"
        rows.append([*row, size, form.format(ours["score"]), f"{ours['seconds']:.3g}", times])
    headings = ["peer", score, "CPU s", "our trees", score, "CPU s", "times as fast"]
    return f"{text}\nAt equal {score}, the cheapest forest of ours:\n\n" + as_table(headings, rows)


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
Rounds: {repeat}, each with another seed and each line in a fresh process. CPU seconds are the least of
the rounds, memory, bytes and speed of prediction medians, the score is the mean. "x faster": CPU seconds of
scikit-learn's RandomForest divided by the line's. Insertion: one value counted into one histogram; peers do
not tell theirs. Peak memory: above what is in use before training, which includes the data (bytes as
bytes for EdgeForest and YDF, float32 for the others). Model: our JSON, scikit-learn's and wildwood's pickle,
LightGBM's text, what YDF and fastforest write. One row and rows/s: through the library's own predict. The
controls show what the race adds: our exact splitter; a fixed number of rows a node; scikit-learn with as many
rows a tree (max_samples) as let it count about as many values as our race did. LightGBM grows a tree for
every class, and boosting keeps its 31 leaves. YDF tries one feature more at a split than it is told.
Standard errors are those of the test rows, and from two rounds on those of the seeds, too.
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
    cases = CASES | LARGE | QUICK
    add = parser.add_argument
    add("--quick", action="store_true", help="small cases, one round")
    about = "only this one; may be given again: " + ", ".join(cases)
    add("--case", action="append", choices=list(cases), metavar="NAME", help=about)
    about = "only peers whose name holds this, beside RandomForest; may be given again"
    add("--peer", action="append", metavar="TEXT", help=about)
    add("--repeat", type=int, metavar="ROUNDS", help="rounds (3, with --quick 1)")
    add("--threads", action="store_true", help="two threads as well, by the clock")
    add("--data", metavar="FOLDER", help="where the real data is (../shared/data)")
    add("--out", metavar="FILE.md", help="write the report here, and all figures to FILE.json")
    add("--limit", type=float, default=120, help="CPU seconds until a model is given up (120)")
    args = parser.parse_args()
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
