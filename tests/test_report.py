"""The report of a forest: its numbers are right, and its page is harmless and fits a phone."""

import json
import os
import random
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from command_line import refused, table
from runtimes import Browser, needs_browser
from sklearn import ensemble, metrics, tree

import edgeforest
from edgeforest import RandomForestClassifier, RandomForestRegressor, cli, plots, train
from edgeforest.cli.fitting import advance
from edgeforest.cli.screen import StatusLine
from edgeforest.export import from_sklearn
from edgeforest.forests.merging import keep
from edgeforest.reports import measures
from edgeforest.reports.watching import watch

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=1">',
    "</title></style></svg><b>",
    "a name that never ends " * 40,
    "\u202eturned\u2066 \x1b[2J",
    "javascript:alert(1)&lt;",
]


class Tags(HTMLParser):
    """Notes the tags of a page, and whether each one that opens is closed in its order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text, self.styles = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.styles if self.open[-1:] == ["style"] else self.text).append(data)

    def words(self):
        return " ".join(" ".join(self.text).split())


def harmless(page):
    """The tags of a page that runs nothing, loads nothing, and closes whatever it opens."""
    tags = Tags(page)
    assert tags.open == []
    for name, attributes in tags.seen:
        assert name not in ("script", "img", "iframe", "link", "object", "embed", "a", "form")
        assert not [key for key in attributes if key.startswith("on") or key in ("src", "href")]
    assert "url(" not in " ".join(tags.styles)
    assert "@import" not in " ".join(tags.styles)
    return tags


def sensor_rows(n, seed=0, gaps=0.05):
    r = random.Random(seed)
    rows = [[r.gauss(20, 4), r.choice(["mon", "sat", "sun"]), r.random()] for _ in range(n)]
    y = [(t > 21) + (day == "sun") + (r.random() < 0.1) for t, day, _ in rows]
    return [[None if r.random() < gaps else v for v in row] for row in rows], y


# ---- Watching


@pytest.mark.parametrize("engine", edgeforest.engine.present())
@pytest.mark.parametrize("criterion", ["gini", "mse"])
def test_a_watched_tree_is_the_first_tree_of_the_forest(engine, criterion):
    rows, y = sensor_rows(2500)
    options = {"criterion": criterion, "categorical": [1], "seed": 5, "n_trees": 3}
    options |= {"max_depth": 6, "budget": 30_000}
    watched = watch(rows, y, **options)
    forest = train(rows, y, engine=engine, **options)
    first = keep(forest, [0])
    for name in ("feature", "threshold", "right", "votes"):
        assert getattr(first, name) == getattr(watched.forest, name)
    assert sum(v.insertions for v in watched.visits) == watched.forest.spent.insertions
    assert all(0 <= v.counted <= v.rows for v in watched.visits)
    assert watched.visits[0].depth == 0
    assert max(v.depth for v in watched.visits) <= 6


def test_a_race_shows_intervals_that_shrink_and_features_that_leave():
    r = random.Random(1)
    rows = [[r.gauss(0, 1) for _ in range(6)] for _ in range(6000)]
    y = [row[0] + 0.9 * row[1] + r.gauss(0, 0.5) > 0 for row in rows]
    race = watch(rows, y, max_features=6, max_depth=1).race
    assert len(race.rounds) > 2
    counted = [rows for rows, _ in race.rounds]
    assert counted == sorted(set(counted))
    assert counted[-1] <= race.counted <= race.n
    before = set(range(6))
    for _, arms in race.rounds:
        assert set(arms) <= before
        before = set(arms)
        assert all(0 <= arm.low <= arm.gain <= arm.high <= 1 for arm in arms.values())
    first, *others = race.runners()
    assert first.won
    assert first.feature == race.winner in (0, 1)
    assert not any(runner.won for runner in others)
    wide = [arm.high - arm.low for arm in first.arms]
    assert wide[-1] < wide[0]
    # What is known of a split once all rows are counted lies within the last interval.
    half = [label for row, label in zip(rows, y, strict=True) if row[race.winner] <= race.threshold]
    rest = [label for row, label in zip(rows, y, strict=True) if row[race.winner] > race.threshold]

    def impurity(labels):
        return 2 * np.mean(labels) * (1 - np.mean(labels))

    inside = (len(half) * impurity(half) + len(rest) * impurity(rest)) / len(y)
    gain = 1 - inside / impurity(y)
    assert first.arms[-1].low - 0.02 <= gain <= first.arms[-1].high + 0.02


# ---- Numbers


def test_scores_as_the_forest_grew_are_those_of_its_first_trees():
    rows, y = sensor_rows(500)
    for criterion in ("gini", "mse"):
        forest = train(rows[:300], y[:300], categorical=[1], n_trees=4, criterion=criterion)
        found = measures.scored(forest, rows[300:], y[300:])
        for trees, score in enumerate(found.by_trees, 1):
            said = np.array(keep(forest, range(trees)).predict(rows[300:]))
            truth = np.array(y[300:])
            expected = np.mean(said == truth)
            if criterion == "mse":
                expected = np.mean((said - truth) ** 2) ** 0.5
            assert score == pytest.approx(expected, abs=1e-6)


def test_rows_of_the_fit_are_asked_out_of_bag():
    rows, y = sensor_rows(400, gaps=0)
    rows = [[row[0], row[2]] for row in rows]
    for kind, criterion in ((RandomForestClassifier, "accuracy"), (RandomForestRegressor, "r2")):
        model = kind(12, oob_score=True, random_state=1).fit(rows, y)
        found = edgeforest.reports.writing.scored_by(model, rows, y)
        assert found.out_of_bag
        if criterion == "accuracy":
            assert found.by_trees[-1] == pytest.approx(model.oob_score_)
        else:
            expected = (1 - model.oob_score_) * np.var(found.truth)
            assert found.by_trees[-1] ** 2 == pytest.approx(expected)
        other = edgeforest.reports.writing.scored_by(model, rows[:50], y[:50])
        assert not other.out_of_bag


def test_confusion_and_calibration_count_every_row():
    rows, y = sensor_rows(600)
    forest = train(rows[:300], y[:300], categorical=[1], n_trees=5)
    found = measures.scored(forest, rows[300:], y[300:])
    counts = measures.confusion(found, forest.n_votes)
    said = forest.predict(rows[300:])
    expected = metrics.confusion_matrix(y[300:], said, labels=forest.classes)
    assert counts.tolist() == expected.tolist()
    bins = measures.calibration(found, False)
    assert sum(b.rows for b in bins) == 300
    shares = np.array(forest.predict_proba(rows[300:])).max(axis=1)
    right = np.array(said) == np.array(y[300:])
    low = shares < 0.5
    assert sum(b.rows for b in bins if b.said < 0.5) == low.sum()
    assert sum(b.rows * b.true for b in bins) == pytest.approx(right.sum())
    wrong = measures.worst(found, False, 1000)
    assert len(wrong) == (~right).sum()
    assert not right[wrong].any()


@pytest.mark.parametrize("kind", [tree.DecisionTreeClassifier, tree.DecisionTreeRegressor])
def test_importances_of_a_tree_are_those_of_scikit_learn(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = np.round(X[:, 0] + 0.5 * X[:, 1] * X[:, 2])
    y = y if "Regressor" in kind.__name__ else y.astype(int)
    one = kind(max_depth=4, random_state=0).fit(X, y)
    found = measures.tree_importances(from_sklearn(one), X)
    assert found[0] == pytest.approx(one.feature_importances_, abs=1e-4)
    several = ensemble.RandomForestClassifier(3, max_depth=3, bootstrap=False, random_state=0)
    several.fit(X, np.round(X[:, 0]).astype(int))
    found = measures.tree_importances(from_sklearn(several), X)
    expected = [one.feature_importances_ for one in several.estimators_]
    assert found == pytest.approx(np.array(expected), abs=1e-4)


def test_the_insertions_of_each_tree_are_noted_while_training():
    rows, y = sensor_rows(300)
    for jobs in (1, 2):
        training = edgeforest.train_steps(rows, y, categorical=[1], n_trees=5, n_jobs=jobs)
        grown = []
        assert not advance(training, StatusLine(), grown)
        assert len(grown) == 5
        assert grown == sorted(set(grown))
        assert grown[-1] == training.forest().spent.insertions


# ---- Pages


def test_train_writes_a_report(log, tmp_path, capsys):
    path, model = tmp_path / "report.html", tmp_path / "model.json"
    options = ["--target", "activity", "--trees", "4", "--max-depth", "8"]
    assert cli.main(["train", str(log), *options, "--out", str(model), "--report", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"report     {path}" in said
    page = path.read_text(encoding="utf-8")
    words = harmless(page).words()
    score = re.search(r"accuracy 0\.\d+ over 5 stretches of the log; worst 0\.\d+ on", said)[0]
    assert f"Left out in turn: {score}" in words
    assert "accuracy on 1,500 out-of-bag rows" in words
    forest = edgeforest.load(model)
    assert f"at {forest.spent.insertions:,} insertions" in page  # where its growth ends
    assert "The first tree of this forest, grown again and watched, from 1,500 rows" in words
    for title in (
        "Confusion matrix",
        "Calibration",
        "As the forest grew",
        "Rows there, and rows counted",
        "One race, arm by arm",
        "Importances",
        "Depending on",
        "Tree 1 of 4",
        "moved most by",
        "Size in each format",
    ):
        assert title in words, title
    assert len(page) < 200_000
    assert train_again(log, options, tmp_path) == model.read_text(), "a report changes no forest"


def train_again(log, options, tmp_path):
    path = tmp_path / "again.json"
    assert cli.main(["train", str(log), *options, "--out", str(path)]) == 0
    return path.read_text()


def test_a_log_that_is_not_read_whole_and_one_without_held_out_rows(
    log, tmp_path, capsys, monkeypatch, request
):
    path = tmp_path / "report.html"
    common = ["train", str(log), "--target", "temperature", "--trees", "3", "--max-depth", "5"]
    assert cli.main([*common, "--report", str(path), "--holdout", "none"]) == 0
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "out-of-bag rows" in words
    assert "The largest errors" in words
    request.getfixturevalue("little_memory")
    assert cli.main([*common, "--report", str(path)]) == 0
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "1,446 rows of the training" in words
    assert "it knows some of these. Left out in turn: mean squared error" in words
    assert re.search(r"line [\d,]+", words)


def test_inspect_says_what_the_model_knows_and_what_it_does_not(log, model, tmp_path, capsys):
    path = tmp_path / "report.html"
    assert cli.main(["inspect", str(model), "--report", str(path)]) == 0
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "Not known from the model alone" in words
    assert "edgeforest inspect model.json --report report.html --data log.csv" in words
    assert "Tree 1 of 5" in words
    assert "Confusion matrix" not in words
    data = ["--data", str(log)]
    assert cli.main(["inspect", str(model), "--report", str(path), *data]) == 0
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "Depending on" in words
    assert "Confusion matrix" not in words
    target = ["--target", "activity"]
    assert cli.main(["inspect", str(model), "--report", str(path), *data, *target]) == 0
    words = harmless(path.read_text(encoding="utf-8")).words()
    for title in ("Confusion matrix", "One race, arm by arm", "moved most by"):
        assert title in words
    capsys.readouterr()
    cli.main(["predict", str(model), str(log), "--target", "activity", "--out", os.devnull])
    accuracy = re.search(r"accuracy (0\.\d+) on 1,500 rows", capsys.readouterr().err)[1]
    assert f"{accuracy} accuracy on 1,500 rows" in words


def test_reports_that_cannot_be_made_are_refused(log, model, tmp_path, capsys, monkeypatch):
    report = tmp_path / "report.html"
    assert "give --report, too" in refused(capsys, "inspect", model, "--data", log)
    assert "give the log with --data" in refused(
        capsys, "inspect", model, "--report", report, "--target", "activity"
    )
    assert "would overwrite" in refused(capsys, "inspect", model, "--report", model)
    gone = tmp_path / "nowhere" / "report.html"
    assert "there is no folder" in refused(
        capsys, "train", log, "--target", "activity", "--report", gone
    )
    empty = table(tmp_path, "temperature,humidity\n1,2\n", "other.csv")
    said = refused(capsys, "inspect", model, "--report", report, "--data", empty)
    assert "which the model was trained on" in said
    monkeypatch.setitem(sys.modules, "numpy", None)  # as if it were not installed
    assert "--report needs NumPy" in refused(capsys, "inspect", model, "--report", report)
    assert not report.exists()


def hostile_forest(regression):
    r = random.Random(2)
    rows = [
        [r.gauss(0, 1), r.choice(HOSTILE), *(r.random() for _ in range(4))] for _ in range(1600)
    ]
    y = [row[0] + (row[1] == HOSTILE[0]) + r.gauss(0, 0.3) for row in rows]
    if not regression:
        y = [HOSTILE[0] if v < 0 else HOSTILE[1] if v < 1 else HOSTILE[3] for v in y]
    criterion = "mse" if regression else "gini"
    forest = train(
        rows[:1200], y[:1200], categorical=[1], names=HOSTILE, criterion=criterion, n_trees=5
    )
    return forest, rows, y


@pytest.mark.parametrize("regression", [False, True])
def test_names_of_strangers_are_shown_and_do_nothing(regression, tmp_path):
    forest, rows, y = hostile_forest(regression)
    path = tmp_path / "report.html"
    about = {"target": HOSTILE[0], "title": HOSTILE[2]}
    edgeforest.write_report(path, forest, rows[1200:], y[1200:], **about)
    page = path.read_text(encoding="utf-8")
    tags = harmless(page)
    assert "document.title" in tags.words()
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert max(len(word) for word in tags.words().split()) < 500
    assert len(page) < 300_000
    policy = [a["content"] for name, a in tags.seen if "http-equiv" in a]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    pictures = [a for name, a in tags.seen if name == "svg"]
    assert len(pictures) > 6
    assert all(a["role"] == "img" and a["aria-label"] for a in pictures)
    alone = tmp_path / "alone.html"
    edgeforest.write_report(alone, forest)
    harmless(alone.read_text(encoding="utf-8"))
    harmless(f"<div>{forest._repr_html_()}</div>")


def test_forests_that_learned_nothing_have_a_report(tmp_path):
    path = tmp_path / "report.html"
    for y, criterion in (([1.5] * 30, "mse"), (["a"] * 30, "gini")):
        forest = train([[i, None] for i in range(30)], y, criterion=criterion, n_trees=2)
        edgeforest.write_report(path, forest, [[i, None] for i in range(30)], y)
        words = harmless(path.read_text(encoding="utf-8")).words()
        assert "No feature matters" in words
    with pytest.raises(ValueError, match="y must come with the rows"):
        edgeforest.write_report(path, forest, None, y)
    numbers = [[i % 7, i % 5, i % 3, i % 2] for i in range(90)]
    forest = train(numbers, [row[0] > 3 for row in numbers], n_trees=3)
    for rows in ([numbers[0]] * 3, [[None] * 4] * 3):  # all in one leaf; nothing known of them
        edgeforest.write_report(path, forest, rows, [True, False, True])
        harmless(path.read_text(encoding="utf-8"))


def test_estimators_whose_trees_drew_every_row(tmp_path):
    """Nothing is out of bag, so there is no score, and the page says so."""
    rows, y = sensor_rows(200, gaps=0)
    rows = [[row[0], row[2], i % 5, i % 3] for i, row in enumerate(rows)]
    model = edgeforest.ExtraTreesClassifier(3, max_depth=3, random_state=0).fit(rows, y)
    path = tmp_path / "report.html"
    edgeforest.write_report(path, model, rows, y)
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "Confusion matrix" not in words
    assert "Depending on" in words
    by_tree = measures.tree_importances(model.forest_, np.array(rows, np.float32))
    agreed = edgeforest.stability(by_tree, 3)
    assert f"Stability of the 3 most important over the trees: {agreed:.2f}" in words
    for draw in (plots.growth, plots.confusion, plots.calibration):
        with pytest.raises(ValueError, match="none is out of bag: give other rows"):
            draw(model, rows, y)
    assert "<svg" in plots.growth(model, rows[:20], y[:20]).html


def test_many_classes_and_features_stay_readable(tmp_path):
    r = random.Random(4)
    rows = [[r.random() for _ in range(60)] for _ in range(2200)]
    y = [f"class {int(row[0] * 30)}" for row in rows]
    path = tmp_path / "report.html"
    edgeforest.write_report(path, train(rows, y, n_trees=3, max_depth=8), rows, y)
    words = harmless(path.read_text(encoding="utf-8")).words()
    assert "20 classes with fewer errors left out" in words
    assert "more features out after" in words


def test_a_forest_in_a_notebook(tmp_path):
    rows, y = sensor_rows(200)
    forest = train(rows, y, categorical=[1], n_trees=3, names=["t", "day", "z"])
    words = harmless(f"<div>{forest._repr_html_()}</div>").words()
    assert "random-forest for classification" in words
    assert "day" in words
    picture = plots.tree(forest, 2)
    path = tmp_path / "tree.html"
    picture.save(path)
    harmless(path.read_text(encoding="utf-8"))
    assert picture.html.count("<details") == picture.html.count("</details>") > 2
    with pytest.raises(ValueError, match="number must be from 0 to 2, got 3"):
        plots.tree(forest, 3)
    with pytest.raises(ValueError, match="use predictions"):
        plots.confusion(train([[1], [2]], [0.5, 1.5], criterion="mse"), [[1]], [0.5])
    with pytest.raises(ValueError, match="counted whole"):
        plots.race(rows, y, categorical=[1])


# ---- In a browser

OVERLAPS = """
(() => {
  const found = [];
  for (const svg of document.querySelectorAll('svg')) {
    const card = svg.closest('.card').getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].map((t) => [t, t.getBoundingClientRect()]);
    boxes.forEach(([t, a], i) => {
      if (a.left < card.left || a.right > card.right + 1) found.push('cut: ' + t.textContent);
      for (const [u, b] of boxes.slice(i + 1)) {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 4) found.push(t.textContent + ' over ' + u.textContent);
      }
    });
  }
  return found;
})()
"""


@needs_browser
def test_the_page_fits_a_phone_and_asks_for_nothing(tmp_path):
    """In light and dark; set EDGEFOREST_SCREENSHOTS to a folder to keep pictures."""
    forest, rows, y = hostile_forest(False)
    path = tmp_path / "report.html"
    edgeforest.write_report(path, forest, rows[1200:], y[1200:], title=HOSTILE[0])
    kept = Path(os.environ.get("EDGEFOREST_SCREENSHOTS", tmp_path))
    browser = Browser()
    try:
        seen = {}
        for wide, scheme in ((390, "light"), (390, "dark"), (1280, "light")):
            size = {"width": wide, "height": 844, "deviceScaleFactor": 1, "mobile": wide < 500}
            browser.call("Emulation.setDeviceMetricsOverride", **size)
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.call("Emulation.setEmulatedMedia", features=features)
            browser.open(path.as_uri())
            assert browser.evaluate("document.documentElement.scrollWidth") <= wide
            assert browser.evaluate(OVERLAPS) == []
            assert browser.evaluate("document.title").startswith("<script>")
            colour = "getComputedStyle(document.querySelector('main')).backgroundColor"
            seen[wide, scheme] = browser.evaluate(colour)
            browser.screenshot(kept / f"report-{wide}-{scheme}.png")
        assert seen[390, "light"] != seen[390, "dark"]
        complaints = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        assert [e for e in browser.events if e.get("method") in complaints] == []
        asked = [
            e["params"]["request"]["url"]
            for e in browser.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
        assert set(asked) == {path.as_uri()}, json.dumps(asked)
    finally:
        browser.close()
