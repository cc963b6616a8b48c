"""The figures of the MABSplit paper's appendices: scaling, profile, one tree, few rows.

    python -m benchmarks.paper_figures [--only scaling|profile|tree|small] [--quick]
        [--data FOLDER] [--out docs/scaling.svg]

scaling (its Appendix 2)  insertions for one root split against the number of rows, with the best linear and
                          the best logarithmic fit; digits of MNIST, and a random linear model of 50
                          features, all of which race. Rows are drawn with replacement, as in the
                          paper.
profile (its Appendix 5)  where the time goes: one split of the pure engine on 5,000 and 10,000 digits, by
                          cProfile, which makes calls of Python functions look dearer than they are.
tree (its Appendix 6)     one tree of depth 8 over all features of MNIST beside scikit-learn's
                          DecisionTreeClassifier: CPU seconds, taking turns, and accuracy.
small (its Appendix 7)    insertions of 5 trees of depth 5 on few rows of MNIST: from how many rows on
                          does a race take fewer than exact counting?

Agreement of forests with scikit-learn's (its Appendix 4) is what accuracy.py shows.
"""

import argparse
import cProfile
import pstats
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import command, data
from benchmarks.common import about, score_of, with_error
from edgeforest import train

SIZES = [
    2_000,
    4_000,
    6_000,
    8_000,
    12_000,
    16_000,
    24_000,
    32_000,
    48_000,
    64_000,
    96_000,
    128_000,
]
SMALL = [500, 800, 1_000, 1_050, 1_100, 1_500, 2_000, 3_000, 5_000]
PROFILED = [5_000, 10_000]
SPLITTERS = ("exact", "mab-paper", "mab")
PAPER_R2 = {"MNIST": (0.66, 0.97), "random linear model": (0.43, 0.82)}  # linear, logarithmic


def linear_model() -> data.Table:
    """The paper's Random Linear Model: 50 features, of which 6 matter."""
    from sklearn.datasets import make_regression

    X, y = make_regression(200_000, 50, n_informative=6, random_state=0)
    X, cut = X.astype(np.float32), 160_000
    return data.Table("random linear model", True, X[:cut], y[:cut], X[cut:], y[cut:])


def fit(n: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
    """The best a n + b, and its R2."""
    line = np.polyfit(n, y, 1)
    left = y - np.polyval(line, n)
    return line, 1.0 - float(left @ left) / float(((y - y.mean()) ** 2).sum())


def root_splits(table: data.Table, seeds: int) -> np.ndarray:
    """The mean insertions for a root split, by the number of rows."""
    found = []
    for n in SIZES:
        each = []
        for seed in range(seeds):
            rows = np.random.default_rng(seed).integers(len(table.y), size=n)
            forest = train(
                table.X[rows],
                table.y[rows],
                criterion="mse" if table.regression else "gini",
                n_trees=1,
                max_depth=1,
                max_features=1.0,
                max_samples=1.0,
                bootstrap=False,
                seed=seed,
            )
            each.append(forest.spent.insertions)
        found.append(float(np.mean(each)))
    return np.array(found)


def show_scaling(mnist: data.Table, seeds: int, out: Path | None) -> None:
    n = np.array(SIZES, float)
    results = {}
    print(f"\n### Insertions for a root split, all features, mean of {seeds} seeds\n")
    print(f"| rows | {' | '.join(f'{s:,}' for s in SIZES)} |\n{'|---' * (len(SIZES) + 1)}|")
    for table in (mnist, linear_model()):
        found = results[table.about] = root_splits(table, seeds)
        print(f"| {table.about} | {' | '.join(f'{v:,.0f}' for v in found)} |", flush=True)
    print(
        "\n| | R2, linear | R2, logarithmic | the paper: linear | logarithmic |\n"
        + "|---" * 5
        + "|"
    )
    for name, found in results.items():
        said = PAPER_R2.get(name, ("", ""))
        print(
            f"| {name} | {fit(n, found)[1]:.2f} | {fit(np.log(n), found)[1]:.2f} "
            f"| {said[0]} | {said[1]} |"
        )
    if out:
        draw_scaling(results, out)


def draw_scaling(results: dict[str, np.ndarray], out: Path) -> None:
    """Points and both fits, a panel for each table, as SVG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "edgeforest", "font.size": 10})
    figure, panels = plt.subplots(1, len(results), figsize=(8, 3.2), layout="constrained")
    n = np.array(SIZES, float)
    dense = np.geomspace(n[0], n[-1], 200)
    for panel, (name, found) in zip(panels, results.items(), strict=True):
        line, curve = fit(n, found), fit(np.log(n), found)
        panel.plot(dense, np.polyval(curve[0], np.log(dense)), color="#0b5cd5")
        panel.plot(dense, np.polyval(line[0], dense), color="#b3470b", linestyle="--")
        panel.plot(n, found, "o", color="#14181f", markersize=4)
        panel.set_title(name, fontsize=11)
        panel.legend(
            [f"logarithmic, R² {curve[1]:.2f}", f"linear, R² {line[1]:.2f}"], frameon=False
        )
        panel.set_xlabel("rows")
        panel.set_xticks([0, 40_000, 80_000, 120_000])
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        panel.yaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("insertions for a root split")
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)
    print(f"\n{out.name} written")


def show_small(mnist: data.Table, seeds: int) -> None:
    print(f"\n### Few rows: insertions of 5 trees of depth 5 on MNIST, mean of {seeds} seeds\n")
    print(f"| rows | {' | '.join(SPLITTERS)} | accuracy: {' | '.join(SPLITTERS)} |\n{'|---' * 7}|")
    for n in SMALL:
        cost: dict[str, list[float]] = {s: [] for s in SPLITTERS}
        scores: dict[str, list[float]] = {s: [] for s in SPLITTERS}
        for seed in range(seeds):
            rows = np.random.default_rng(seed).choice(len(mnist.y), n, replace=False)
            for s in SPLITTERS:
                forest = train(
                    mnist.X[rows], mnist.y[rows], splitter=s, n_trees=5, max_depth=5, seed=seed
                )
                cost[s].append(forest.spent.insertions)
                scores[s].append(score_of(forest.predict(mnist.X_test), mnist.y_test, False))
        cells = [f"{np.mean(cost[s]):,.0f}" for s in SPLITTERS]
        cells += [f"{np.mean(scores[s]):.3f}" for s in SPLITTERS]
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def profile(X: np.ndarray, y: np.ndarray, splitter: Any) -> tuple[float, dict[str, float]]:
    """CPU seconds of one split in the pure engine: in all, and with all that a function calls."""
    spent: dict[str, float] = {}
    watch = cProfile.Profile(time.process_time)
    watch.runcall(
        train, X, y, engine="pure", splitter=splitter, n_trees=1, max_depth=1, max_samples=1.0
    )
    stats: Any = pstats.Stats(watch)
    for (file, _, name), (*_, inclusive, _) in stats.stats.items():
        if file.endswith("nodes.py") or name == "find_split":
            spent[name] = spent.get(name, 0.0) + inclusive
    return stats.total_tt, spent


def show_profile(mnist: data.Table) -> None:
    print("\n### Where the time goes: one split of the pure engine, by cProfile\n")
    print(
        "| digits | splitter | CPU s | finding the split | of that: counting rows | ranking arms |"
    )
    print("|---" * 6 + "|")
    for n in PROFILED:
        rows = np.random.default_rng(0).choice(len(mnist.y), n, replace=False)
        for splitter in SPLITTERS:
            whole, spent = profile(mnist.X[rows], mnist.y[rows], splitter)
            split = spent["find_split"]
            ranking = sum(spent.get(name, 0.0) for name in ("rank", "measure", "better_threshold"))
            cells = [f"{spent.get('count', 0.0) / split:.0%}", f"{ranking / split:.0%}"]
            print(
                f"| {n:,} | `{splitter}` | {whole:.2f} | {split / whole:.0%} | {' | '.join(cells)} |"
            )


def show_tree(mnist: data.Table, seeds: int) -> None:
    from sklearn.tree import DecisionTreeClassifier

    seconds: dict[str, list[float]] = {}
    scores: dict[str, list[float]] = {}
    plain = mnist.X.astype(np.float32)
    for seed in range(seeds):
        for name in ("scikit-learn", "exact", "mab"):
            began = time.process_time()
            if name == "scikit-learn":
                tree: Any = DecisionTreeClassifier(max_depth=8, random_state=seed)
                tree.fit(plain, mnist.y)
            else:
                tree = train(
                    mnist.X,
                    mnist.y,
                    splitter=name,  # type: ignore[arg-type]
                    n_trees=1,
                    max_depth=8,
                    max_features=1.0,
                    max_samples=1.0,
                    bootstrap=False,
                    seed=seed,
                )
            seconds.setdefault(name, []).append(time.process_time() - began)
            predicted = tree.predict(mnist.X_test)
            scores.setdefault(name, []).append(score_of(predicted, mnist.y_test, False))
    print(f"\n### One tree of depth 8 on MNIST, all features, {seeds} seeds\n")
    print("| tree | CPU s | times as fast | accuracy | the paper |\n" + "|---" * 5 + "|")
    said = {
        "scikit-learn": "34.7 s, 0.911",
        "exact": "86.5 s, 0.909",
        "mab": "8.5 s (4.1 times), 0.906",
    }
    for name, spent in seconds.items():
        faster = np.median(np.array(seconds["scikit-learn"]) / np.array(spent))
        print(
            f"| {name} | {np.mean(spent):.2f} | {faster:.1f} | {with_error(scores[name])} | {said[name]} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", metavar="FOLDER", help="where the real data is (see data.py)")
    parser.add_argument("--only", choices=["scaling", "profile", "tree", "small"])
    parser.add_argument("--seeds", type=int, help="5; with --quick 1")
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--out", type=Path, help="draw the scaling, as .svg or .png")
    args = parser.parse_args()
    seeds = args.seeds or (1 if args.quick else 5)
    print(f"`{command()}`\n\n{about('scikit-learn')}")
    mnist = data.mnist(args.data)
    if args.only in (None, "scaling"):
        show_scaling(mnist, seeds, args.out)
    if args.only in (None, "profile"):
        show_profile(mnist)
    if args.only in (None, "tree"):
        show_tree(mnist, min(3, seeds))
    if args.only in (None, "small"):
        show_small(mnist, seeds)


if __name__ == "__main__":
    main()
