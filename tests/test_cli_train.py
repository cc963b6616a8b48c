"""edgeforest train: what it prints, keeps and refuses."""

import io
import json
import re
import signal
import sys

import pytest
from command_line import COMMON, numbers, options_of, prepared, refused, table

import edgeforest
from edgeforest import cli, engine, storage
from edgeforest.cli import logs as reading
from edgeforest.cli import screen, train
from edgeforest.engines.ranges import of_columns
from edgeforest.forests.walking import depth
from edgeforest.host import words
from edgeforest.host.cores import usable_cores
from edgeforest.sources import open_source


def test_train_reports_what_was_read_spent_and_reached(log, tmp_path, capsys):
    out = tmp_path / "model.json"
    arguments = ["train", str(log), "--target", "activity", "--budget", "60k", "--trees", "5"]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == "", "no progress where nobody watches"
    assert "1,500 rows, 6 features" in text
    assert "5 numbers: temperature, humidity, light, co2, vibration" in text
    assert "1 categorical: window (3 values)" in text
    assert "left out: time (text, 1,500 distinct dates; --dates time makes numbers" in text
    assert re.search(r"missing: \d+ values \(\d\.\d%\), most in \w+ \(\d+\)", text)
    assert re.search(r"target +activity: 3 classes, empty \(\d\d%\)", text)
    forest = edgeforest.load(str(out))
    assert 0 < forest.spent.insertions <= 30_000
    assert f"{forest.spent.insertions:,} of 30,000 insertions" in text
    score = int(re.search(r"([\d,]+) insertions for its score", text)[1].replace(",", ""))
    assert 0 < score <= 60_000 - forest.spent.insertions, "the budget is for both"
    assert f"{len(forest)} trees, {len(forest.feature):,} nodes" in text
    assert "over 5 stretches of the log; worst " in text
    assert re.search(r" on 2025-03-0\d \d\d:\d\d:00 to 2025-03-0", " ".join(text.split()))
    assert f"{out}, {out.stat().st_size / 1000:.1f} kB" in text
    accuracy = float(re.search(r"accuracy (\d\.\d+)", text)[1])
    naive = float(re.search(r"(\d\.\d+) by always guessing the commonest", text)[1])
    assert naive < accuracy <= 1
    bars = re.findall(r"^\s*(?:important)?\s+(\w+) +(0\.\d+) +(#*)$", text, re.MULTILINE)
    assert len(bars) == 5
    assert [len(bar) for _, _, bar in bars] == sorted((len(b) for _, _, b in bars), reverse=True)
    best = max(zip(forest.feature_importances, forest.names, strict=True))[1]
    assert bars[0][0] == best


def test_same_seed_same_model_other_seed_other_model(log, tmp_path):
    def trained(seed):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        common = ["--budget", "10k", "--trees", "3", "--out", str(out), "--seed", str(seed)]
        assert cli.main(["train", str(log), "--target", "activity", *common]) == 0
        return out.read_bytes()

    assert trained(1) == trained(1) != trained(2)


def test_rows_that_are_scored_are_not_trained_on(log, given, capsys):
    data = prepared(log, "activity")
    common = ["--target", "activity", "--trees", "2", "--json"]
    assert cli.main(["train", str(log), *common]) == 0
    score = json.loads(capsys.readouterr().out)["score"]
    whole, *others = given
    assert len(whole[1]) == len(data.y) == 1500, "the model has learned from all rows"
    assert len(others) == len(score["blocks"]) == 5
    right = 0
    for k, (columns, y, options) in enumerate(others):
        # A fifth is left out, and 5 % of a fifth beside it.
        gap = 14  # minutes: 5 % of 1,499 / 5
        first, last = max(0, 300 * k - gap), min(1500, 300 * (k + 1) + gap)
        kept = [i for i in range(1500) if not first <= i < last]
        assert list(y) == [data.y[i] for i in kept]
        assert list(map(repr, zip(*columns, strict=True))) == [repr(data.rows[i]) for i in kept]
        forest = edgeforest.train(columns, y, **options)
        block = range(300 * k, 300 * (k + 1))
        hits = sum(forest.predict(data.rows[i]) == data.y[i] for i in block)
        assert score["blocks"][k]["score"] == pytest.approx(hits / 300)
        right += hits
    assert score["mean"] == pytest.approx(right / 1500)


def test_the_model_of_a_small_log_is_the_one_that_train_gives(log, model):
    data = prepared(log, "activity")
    forest = edgeforest.train(
        data.rows,
        data.y,
        names=data.names,
        categorical=["window"],
        n_trees=5,
        budget=30_000,
    )
    forest.ranges = of_columns(zip(*data.rows, strict=True), [5])
    assert model.read_text() == forest.to_json() + "\n"


def test_no_score_on_request(log, capsys):
    arguments = ["train", str(log), "--target", "activity", "--holdout", "none", "--budget", "5k"]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "of 5,000 insertions" in text, "all of the budget is for the forest"
    assert "none, since nothing was left out" in text
    assert "accuracy" not in text
    assert "give --out model.json to keep" in text


def test_a_budget_too_small_for_the_trees_is_said(log, capsys):
    assert cli.main(["train", str(log), "--target", "activity", "--budget", "2k"]) == 0
    text = capsys.readouterr().out
    assert "20 trees asked for, the budget did not reach further" in text.replace(
        "\n" + " " * 11, " "
    )


def test_regression_beside_the_mean(tmp_path, capsys):
    path = table(tmp_path, "a,b,y\n" + "".join(f"{i},{i % 7},{i * 0.5}\n" for i in range(400)))
    out = tmp_path / "model.json"
    random = ["--holdout", "random"]
    arguments = ["train", path, "--target", "y", "--trees", "5", "--out", str(out), *random]
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "y: numbers from 0 to 199.5, mean 99.75" in text
    error = float(re.search(r"mean squared error ([\d.]+) over 5 parts at random", text)[1])
    naive = float(re.search(r"([\d,.]+) by always guessing the mean", text)[1].replace(",", ""))
    assert error < naive / 20
    assert naive == pytest.approx(200**2 / 12, rel=0.3)
    assert edgeforest.load(str(out)).criterion == "mse"


@pytest.mark.parametrize("option", ["--kind", "--splitter", "--criterion", "--class-weight"])
def test_every_choice_trains(option, log, tmp_path):
    choices = next(a.choices for a in options_of("train") if option in a.option_strings)
    for choice in choices:
        target = "co2" if choice == "mse" else "activity"
        out = str(tmp_path / "model.json")
        common = ["--target", target, "--budget", "5k", "--trees", "2", "--max-depth", "3"]
        assert cli.main(["train", str(log), *common, option, choice, "--out", out]) == 0
        forest = edgeforest.load(out)
        assert choice in (forest.kind, forest.splitter, forest.criterion, "balanced")
        assert depth(forest) <= 3


def test_options_reach_the_training(log, given):
    common = "--min-samples-leaf 7 --trees 3 --max-depth 4 --class-weight balanced --seed 9"
    limits = "--budget 1.5k --seconds 2k --bytes 1G"
    arguments = ["train", str(log), "--target", "activity", *common.split(), *limits.split()]
    assert cli.main([*arguments, "--drop", "co2,light", "--drop", "humidity"]) == 0
    _, _, seen = given[0]
    assert seen["names"] == ["temperature", "vibration", "window"]
    assert (seen["min_samples_leaf"], seen["n_trees"], seen["max_depth"]) == (7, 3, 4)
    assert (seen["class_weight"], seen["seed"]) == ("balanced", 9)
    budget = seen["budget"]
    assert (budget.insertions, budget.bytes) == (750, 10**9)
    assert 0 < budget.seconds <= 2000, "what reading has not used"
    assert (seen["engine"], seen["n_jobs"]) == (None, 1), "the fastest, in one thread"


@pytest.mark.parametrize("name", engine.present())
def test_every_engine_writes_the_same_model(name, log, model, tmp_path, capsys, given):
    common = ["train", str(log), "--target", "activity", "--budget", "60k", "--trees", "5"]
    for jobs in ("2", "-1"):
        out = tmp_path / f"{jobs}.json"
        assert cli.main([*common, "--engine", name, "--jobs", jobs, "--out", str(out)]) == 0
        threads = {"2": 2, "-1": usable_cores()}[jobs] if name == "native" else 1
        said = f"engine     {name}, {threads} thread{'s' * (threads > 1)}\n"
        assert said in capsys.readouterr().out, "and no advice: it was asked for"
        assert out.read_bytes() == model.read_bytes()
    assert {(o["engine"], o["n_jobs"]) for _, _, o in given} == {(name, 2), (name, -1)}


def test_the_environment_asks_for_an_engine_and_the_option_overrides_it(log, monkeypatch, capsys):
    common = ["train", str(log), "--target", "activity", "--budget", "5k"]
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    assert cli.main(common) == 0
    assert "engine     pure, 1 thread\n" in capsys.readouterr().out
    best = engine.present()[0]
    assert cli.main([*common, "--engine", best]) == 0
    assert f"engine     {best}, 1 thread\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", engine.present())
@pytest.mark.parametrize("command", ["train", "demo"])
def test_ctrl_c_keeps_the_forest_so_far(command, name, log, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    last = 3 if name == "native" else 20  # whose steps are as long as a tree
    steps = []

    def step(self, training, work=None):
        steps.append(training)
        if len(steps) == last:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(screen.StatusLine, "step", step)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    before = signal.getsignal(signal.SIGINT)
    out = tmp_path / "model.json"
    if command == "train":
        code = cli.main(["train", str(log), "--target", "activity", "--out", str(out)])
    else:
        code = cli.main(["demo", "--out", str(tmp_path), "--rows", "500", "--budget", "1M"])
    assert code == 130
    assert len(steps) == last
    assert (
        "stopped    by Ctrl-C; the forest so far is complete and is kept" in capsys.readouterr().out
    )
    forest = edgeforest.load(str(out))
    assert forest.spent.insertions > 0
    assert len(forest) < 20
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_while_scoring_keeps_the_forest(number, code, log, tmp_path, capsys, monkeypatch):
    number = getattr(signal, number)
    seen = []

    def step(self, training, work):
        seen.append(getattr(work, "at", None))
        if seen[-1] == 2:
            signal.raise_signal(number)

    monkeypatch.setattr(screen.StatusLine, "step", step)
    before = signal.signal(number, signal.default_int_handler)
    out = tmp_path / "model.json"
    arguments = ["train", str(log), "--target", "activity", "--trees", "3", "--out", str(out)]
    try:
        assert cli.main(arguments) == code
    finally:
        signal.signal(number, before)
    text = capsys.readouterr().out
    assert "over 2 of 5 stretches of the log" in text
    assert len(edgeforest.load(str(out))) == 3


def test_ctrl_c_while_reading_is_one_line(monkeypatch, capsys):
    def interrupted(path, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(reading, "open_source", interrupted)
    assert cli.main(["train", "log.csv", "--target", "y"]) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"


@pytest.mark.parametrize("name", engine.present())
def test_progress_on_a_terminal_counts_insertions_and_trees(name, log, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    clock = iter(range(10**9))
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("EDGEFOREST_ENGINE", name)
    monkeypatch.setenv("COLUMNS", "91")
    arguments = ["train", str(log), "--target", "activity", "--budget", "40k", "--trees", "3"]
    assert cli.main(arguments) == 0
    lines = sys.stderr.getvalue().split("\r\x1b[K")
    found = [
        re.match(r"\[#*\.*\] training: ([\d,]+) of 20,000 insertions, (\d) of 3 trees", s)
        for s in lines
    ]
    assert any(re.search(r" scoring 5 of 5: .* insertions, .*, about .* left", s) for s in lines)
    assert any(len(line) == 90 for line in lines), "none is longer than the terminal is wide"
    assert max(map(len, lines)) == 90
    spent = [int(match[1].replace(",", "")) for match in found if match]
    assert spent == sorted(spent)
    assert 0 < spent[0] < spent[-1] <= 20_000
    assert {match[2] for match in found if match} >= {"0", "1", "2"}
    assert lines[-1] == "", "the line is taken away at the end"
    assert "training" not in capsys.readouterr().out


def test_ctrl_c_means_the_same_after_training_as_before(log):
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["train", str(log), "--target", "activity", "--budget", "2k"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_rows_without_a_target_are_left_out_and_counted(tmp_path, capsys):
    path = table(tmp_path, "a,y\n1,u\n2,\n3,v\n4,NA\n")
    data = prepared(path, "y")
    assert (data.rows, data.y, data.unlabelled) == ([(1.0,), (3.0,)], ["u", "v"], 2)
    assert cli.main(["train", path, "--target", "y"]) == 0
    assert "left out: 2 rows without a target" in capsys.readouterr().out


@pytest.mark.usefixtures("little_memory")
def test_a_log_too_large_for_memory(logs, tmp_path, capsys, given):
    out = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv.gz"), *COMMON]
    assert cli.main([*command, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "1,500 rows, 6 features" in text
    assert "1 categorical: window\n" in text
    assert "found from 1,500 rows drawn at random" in text
    assert "target     activity: classes" in text
    accuracy = float(re.search(r"accuracy (\d\.\d+) over 5 stretches of the log", text)[1])
    assert accuracy > float(re.search(r"(\d\.\d+) by always guessing the commonest", text)[1])
    assert 0 < edgeforest.load(str(out)).spent.insertions <= 30_000
    assert sorted(len(y) for _, y, _ in given) == [1172, 1172, 1172, 1186, 1186, 1500]
    assert cli.main([*command, "--holdout", "none"]) == 0
    assert "nothing was left out" in capsys.readouterr().out


@pytest.mark.usefixtures("little_memory")
def test_what_a_sample_did_not_show_is_said(tmp_path, capsys):
    rows = [f"{i},{i % 7},{i * 0.5}" for i in range(9000)]
    hidden = table(tmp_path, "\n".join(["a,b,y", *rows]))
    looked = set()
    with open_source(hidden) as source:
        looked.update(map(int, source.sample(4096, edgeforest.Rng(0, 1 << 20))[0]))
    odd, empty = [i for i in range(9000) if i not in looked][:2]
    rows[odd] = f"oops,1,{odd}"
    rows[empty] = f"{empty},1,"
    path = table(tmp_path, "\n".join(["a,b,y", *rows]))
    assert cli.main(["train", path, "--target", "y", "--trees", "3", "--holdout", "none"]) == 0
    text = capsys.readouterr().out
    assert "1 value of a taken as missing: not a number" in text
    assert "1 row without a target left out" in text
    bad = table(tmp_path, "\n".join(["a,b,y", *rows[:odd], "1,2", "3", *rows[odd:]]))
    assert "skip such rows with --max-bad N" in refused(capsys, "train", bad, "--target", "y")
    command = ["train", bad, "--target", "y", "--trees", "3", "--max-bad", "2"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "skipped    2 rows that cannot be read:" in text
    assert f"line {odd + 2} has 2 values where there are 3 columns" in text


@pytest.mark.usefixtures("little_memory")
def test_refusals_of_a_large_log_are_one_sentence(logs, tmp_path, capsys):
    path = logs / "log.jsonl"
    assert "no column 'y'; it has time, temp" in refused(capsys, "train", path, "--target", "y")
    said = refused(capsys, "train", path, "--target", "activity", "--bytes", "9k")
    assert re.search(
        r"^--bytes must be at least \d+ to hold enough rows of 6 features, got 9000$", said
    )
    said = refused(capsys, "train", path, "--target", "co2", "--class-weight", "balanced")
    assert said.startswith(
        "--class-weight is for classes, but the target 'co2' is a number; leave it out,"
    )
    odd = table(tmp_path, numbers(40, {7: "err"}))
    said = refused(capsys, "train", odd, "--target", "y")
    assert said == (
        f"column 'x' holds numbers, but line 9 of {odd} has 'err'; fix it, or use --categorical x "
        "or --drop x"
    )


@pytest.mark.parametrize("last", [1, 4])
def test_a_training_that_was_stopped_is_resumed(last, logs, tmp_path, capsys, monkeypatch):
    path = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv.gz"), *COMMON, "--checkpoint", str(path)]
    assert cli.main(command) == 0
    undisturbed = path.read_bytes()
    said = refused(capsys, *command)
    assert said == f"{path} exists already; add --resume to go on from it, or remove it"
    assert cli.main([*command, "--resume"]) == 0
    text = capsys.readouterr().out
    assert f"resumed    {path}: 5 of 5 trees were done; remove it to train anew" in text
    path.unlink()

    def step(self, training, work=None):
        if len(training.grown) == last:
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with monkeypatch.context() as patch:
        patch.setattr(screen.StatusLine, "step", step)
        assert cli.main([*command, "--resume"]) == 130, "there is nothing to resume, so it begins"
    text = capsys.readouterr().out
    assert "stopped    by Ctrl-C" in text
    assert f"saved      {path}, {words.file_size(path.stat().st_size)}; --resume goes on" in text
    assert len(edgeforest.load(str(path))) == last
    said = refused(capsys, *command, "--resume", "--seed", "3")
    assert said == f"{path} was begun with other seed: 0, now 3; use another path"
    assert cli.main([*command, "--resume", "--out", str(tmp_path / "out.json")]) == 0
    assert f"resumed    {path}: {last} of 5 trees were done\n" in capsys.readouterr().out
    assert path.read_bytes() == undisturbed
    assert edgeforest.load(tmp_path / "out.json").to_json() == edgeforest.load(path).to_json()
    path.write_bytes(undisturbed[:-30])
    assert "cut short" in refused(capsys, *command, "--resume")
    assert "--checkpoint" in refused(capsys, *command[:-2], "--resume")


def test_ctrl_c_before_the_first_tree_is_one_line(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    monkeypatch.setattr(screen.StatusLine, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    path = tmp_path / "model.json"
    command = ["train", str(logs / "log.csv"), *COMMON, "--checkpoint", str(path)]
    assert cli.main(command) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"
    assert not path.exists()


def test_a_log_that_changes_while_it_is_trained_from_keeps_the_trees(log, tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_bytes(log.read_bytes())
    out = tmp_path / "out.json"

    class Meddler(screen.StatusLine):
        def step(self, training, work=None):
            with open(path, "w") as stream:
                stream.write("more\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "StatusLine", Meddler)
        command = ["train", str(path), *COMMON, "--checkpoint", str(tmp_path / "model.json")]
        assert cli.main([*command, "--out", str(out)]) == 2
    text, err = capsys.readouterr()
    assert re.fullmatch(
        r"edgeforest: .*log.csv shrank from .* bytes since it was opened; .*\n", err
    )
    assert "the trees that are done are kept" in text
    assert "score      none" in text
    assert len(edgeforest.load(str(out))) == 5


def test_a_disk_that_is_full_for_the_checkpoint(log, tmp_path, capsys, monkeypatch):
    def full(forest, path, state):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "write", full)
    path, out = tmp_path / "model.json", tmp_path / "out.json"
    command = ["train", str(log), *COMMON, "--checkpoint", str(path)]
    assert cli.main([*command, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert err == f"edgeforest: cannot write {path}: no space left on device\n"
    assert len(edgeforest.load(str(out))) == 1, "what there was, was saved elsewhere"
    assert cli.main(command) == 2
    err = capsys.readouterr().err
    found = re.fullmatch(
        rf"edgeforest: cannot write {path}: no space left on device; the model is in (.*) instead\n",
        err,
    )
    assert len(edgeforest.load(found[1])) == 1


def test_columns_that_contradict_each_other(log, capsys):
    common = ("train", log, "--target", "activity")
    assert "--drop names the target 'activity'" in refused(capsys, *common, "--drop", "activity")
    assert "is not a feature" in refused(capsys, *common, "--categorical", "activity")
    said = refused(capsys, *common, "--categorical", "co2", "--drop", "co2")
    assert "--drop names column 'co2', which is also categorical" in said


def test_too_many_categories(tmp_path, capsys):
    lines = "".join(f"id{i % 255},{i},{i % 2}\n" for i in range(510))
    path = table(tmp_path, "id,a,y\n" + lines)
    said = refused(capsys, "train", path, "--target", "y")
    assert "'id'" in said
    assert "has 255 distinct values, but a feature has at most 254 categories" in said
    assert "--drop id" in said
    assert cli.main(["train", path, "--target", "y", "--drop", "id", "--trees", "2"]) == 0
    assert "254" in refused(capsys, "train", path, "--target", "y", "--categorical", "a")


def test_targets_that_teach_nothing(tmp_path, capsys):
    assert "is empty" in refused(
        capsys, "train", table(tmp_path, "x,y\n1,\n2,NA\n"), "--target", "y"
    )
    said = refused(capsys, "train", table(tmp_path, "x,y\n1,a\n2,a\n"), "--target", "y")
    assert "is 'a' in every row" in said
    said = refused(capsys, "train", table(tmp_path, "y\na\nb\n"), "--target", "y")
    assert "has no column to learn 'y' from" in said


def test_tasks_that_do_not_fit(log, tmp_path, capsys):
    common = ("train", log, "--target", "activity")
    assert "line 2 of" in refused(capsys, *common, "--task", "regression")
    assert "must be numbers" in refused(capsys, *common, "--criterion", "mse")
    said = refused(capsys, *common, "--criterion", "gini", "--task", "regression")
    assert said == "--criterion gini is for classification, got --task regression; leave one out"
    said = refused(capsys, "train", log, "--target", "co2", "--class-weight", "balanced")
    assert (
        "--class-weight is for classes, but the target 'co2' is a number; leave it out, or use --task"
        in said
    )
    model = str(tmp_path / "model.json")
    assert cli.main(["train", str(log), "--target", "co2", "--budget", "2k", "--out", model]) == 0
    assert "no class shares" in refused(capsys, "predict", model, log, "--proba")


def test_memory_that_does_not_fit_is_refused(log, capsys):
    said = refused(capsys, "train", log, "--target", "activity", "--bytes", "10k")
    assert "--bytes must be at least " in said
    assert "got 10000; use fewer rows" in said
