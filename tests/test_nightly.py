"""A log that grows from night to night, and a training that is killed: no night is lost."""

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import warnings
import zlib
from pathlib import Path

import pytest

import edgeforest
from edgeforest import Budget, RandomForestClassifier, cli, storage
from edgeforest.cli import train
from edgeforest.sources import SourceError, checkpoints, open_source
from edgeforest.sources import pools as drawn
from edgeforest.sources import training as streaming
from edgeforest.sources.checkpoints import begun
from edgeforest.sources.training import Streaming, train_source

JOB = Path(__file__).parents[1] / "examples" / "raspberrypi" / "train_from_log.py"
OPTIONS = {"n_trees": 6, "max_depth": 5, "seed": 3}


class PowerCut(BaseException):
    """The power fails: nothing happens after it."""


def line(i):
    here = i * 7919 % 1009 > 400
    return f"{19 + here + i % 5 * 0.3:.1f},{i * 31 % 40 + 300 * here},{'open' if i % 3 else 'shut'},{int(here)}"


def append(path, rows):
    with open(path, "a") as stream:
        if not stream.tell():
            stream.write("temp,light,window,occupied\n")
        stream.writelines(line(i) + "\n" for i in rows)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    append(path, range(1000))
    return path


def cut_after(trees, log, checkpoint, **options):
    """Train until there are that many trees, and stop."""
    training = Streaming(
        open_source(log), "occupied", checkpoint=checkpoint, **{**OPTIONS, **options}
    )
    for _ in training:
        if len(training.grown) == trees:
            return
    raise AssertionError("it was done before")


def trained(log, **options):
    """The forest of an undisturbed training on these rows."""
    return train_source(log, "occupied", **{**OPTIONS, **options}).to_json()


def noted(checkpoint):
    """How many rows a checkpoint remembers, and whether it is done."""
    log, done = checkpoints.noted(checkpoint)
    return log["rows"], done


def resumed(log, checkpoint, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        forest = train_source(
            log, "occupied", checkpoint=checkpoint, resume=True, **{**OPTIONS, **options}
        )
    return forest.to_json(), [str(each.message) for each in said]


# ---- One training


@pytest.mark.parametrize("trees", [1, 4])
def test_training_finishes_with_its_old_rows_and_then_learns_all_rows(trees, log, tmp_path):
    path = tmp_path / "model.json"
    before = trained(log)
    cut_after(trees, log, path)
    assert noted(path) == (1000, False)
    append(log, range(1000, 1400))
    training = Streaming(open_source(log), "occupied", checkpoint=path, resume=True, **OPTIONS)
    assert (len(training.grown), len(training.source), training.later) == (trees, 1000, 400)
    for _ in training:
        pass
    assert training.forest().to_json() == before, "as if nothing had come since"
    assert noted(path) == (1000, True)
    # In one go: the same again, and after that all rows.
    path.unlink()
    cut_after(trees, log, path, seed=4)
    append(log, range(1400, 1500))
    forest, said = resumed(log, path, seed=4)
    assert forest == trained(log, seed=4)
    assert noted(path) == (1500, True)
    assert said == [
        f"{path} was begun with the first 1,400 of the 1,500 rows of {log}: finishing it with these",
        f"{log} has 100 rows more than the 1,400 that {path} was trained on: training anew on all "
        "1,500",
    ]
    assert resumed(log, path, seed=4) == (forest, []), "there is nothing new"


def test_a_finished_checkpoint_is_trained_anew_when_there_are_more_rows(log, tmp_path):
    path = tmp_path / "model.json"
    resumed(log, path)
    with open(log, "a") as stream:
        stream.write("\n")  # no row
    assert resumed(log, path)[1] == []
    append(log, range(1000, 1999))
    forest, [said] = resumed(log, path)
    assert said == (
        f"{log} has 999 rows more than the 1,000 that {path} was trained on: training anew on all "
        "1,999"
    )
    assert forest == trained(log)
    # Also with other options, which a training that goes on must not have.
    append(log, range(1999, 2005))
    assert json.loads(resumed(log, path, n_trees=3)[0])["spent"]
    with pytest.raises(ValueError, match="was begun with other trees: 3, now 6; use another path"):
        resumed(log, path)


@pytest.mark.parametrize("done", [False, True])
def test_a_log_that_was_rotated_is_trained_anew_and_another_log_is_refused(done, log, tmp_path):
    path = tmp_path / "model.json"
    if done:
        resumed(log, path)
    else:
        cut_after(2, log, path)
    kept = path.read_bytes()
    other = tmp_path / "other.csv"
    append(other, range(5000, 7000))
    with pytest.raises(ValueError, match="does not begin with these") as caught:
        resumed(other, path)
    assert str(caught.value) == (
        f"{path} was trained on 1,000 rows of log.csv, and {other} does not begin with these; use "
        "another path, or remove it to train anew"
    )
    assert path.read_bytes() == kept
    moved = tmp_path / "moved.csv"
    shutil.copy(log, moved)
    assert begun(open_source(moved), path).forest is not None, "the same rows somewhere else"
    log.unlink()
    append(log, range(3000, 3300))
    forest, [said] = resumed(log, path)
    assert forest == trained(log)
    assert noted(path) == (300, True)
    assert said == (
        f"{log} no longer begins with the 1,000 rows that {path} was trained on: training "
        "anew on its 300 rows"
    )


def test_a_folder_of_logs_whose_oldest_files_are_deleted(tmp_path):
    path = tmp_path / "model.json"
    folder = tmp_path / "logs"
    folder.mkdir()
    pattern = str(folder / "*.csv")
    for day in range(1, 8):
        append(folder / f"{day}.csv", range(day * 500, day * 500 + 200))
        (folder / f"{day - 3}.csv").unlink(missing_ok=True)
        forest, said = resumed(pattern, path)
        assert noted(path) == (200 * min(day, 3), True)
        assert len(said) == (day > 1)
        assert forest == trained(pattern)
    for day in (5, 6):
        (folder / f"{day}.csv").unlink()
    append(folder / "7.csv", range(10))
    assert "no longer begins with" in resumed(pattern, path)[1][0], "one is left"
    assert noted(path) == (210, True)
    append(folder / "8.csv", range(90))
    assert "90 rows more" in resumed(pattern, path, refresh=True)[1][0]
    assert len(edgeforest.load(path)) == 12


def test_one_row_that_was_altered_is_noticed(log, tmp_path):
    path = tmp_path / "model.json"
    cut_after(2, log, path)
    text = log.read_text().splitlines(keepends=True)
    text[500] = text[500].replace("open", "shut") if "open" in text[500] else text[500][::-1]
    log.write_text("".join(text))
    assert "no longer begins with" in resumed(log, path)[1][0]


def test_rows_in_memory(tmp_path):
    path = tmp_path / "model.json"
    table = {"a": [i % 17 for i in range(600)], "y": [i % 17 > 8 for i in range(600)]}
    train_source(table, "y", n_trees=3, checkpoint=path)
    longer = {name: values + values[:100] for name, values in table.items()}
    with pytest.warns(UserWarning, match="has 100 rows more than the 600 that"):
        forest = train_source(longer, "y", n_trees=3, checkpoint=path, resume=True)
    assert forest.to_json() == train_source(longer, "y", n_trees=3).to_json()
    with pytest.raises(ValueError, match="was trained on 700 rows of the source, and the source"):
        train_source(
            {"a": [1, 2] * 400, "y": [0, 1] * 400}, "y", n_trees=3, checkpoint=path, resume=True
        )


def test_estimators_go_on_with_logs_that_grow(log, tmp_path):
    path = str(tmp_path / "model.json")

    def fit(**options):
        forest = RandomForestClassifier(5, max_depth=4, random_state=0, **options)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            forest.fit_source(log, "occupied", checkpoint=path, resume=True)
        return forest.forest_.to_json(), len(said)

    assert fit(callback=lambda progress: progress.trees == 2)[1] == 0
    append(log, range(1000, 1100))
    forest, said = fit()
    assert said == 2
    assert noted(path) == (1100, True)
    fresh = RandomForestClassifier(5, max_depth=4, random_state=0).fit_source(log, "occupied")
    assert forest == fresh.forest_.to_json()
    assert fit() == (forest, 0)


def test_a_training_whose_time_is_over_is_done(log, tmp_path):
    path = tmp_path / "model.json"
    hour = {"budget": Budget(seconds=3600)}
    cut_after(2, log, path, **hour)
    path.write_text(altered(path, lambda state: state.update(seconds=4000)))
    forest, _ = resumed(log, path, **hour)
    assert noted(path) == (1000, True)
    assert len(edgeforest.load(forest)) == 2
    append(log, range(1000, 1010))
    assert "training anew" in begun(open_source(log), path).note


# ---- Trees that stay


@pytest.mark.parametrize("target", ["occupied", "temp"])
def test_refresh_keeps_the_trees_and_adds_the_same_number_from_all_rows(target, log, tmp_path):
    path = tmp_path / "model.json"

    def grown(**options):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            given = {**OPTIONS, "checkpoint": path, "resume": True, "refresh": True, **options}
            forest = train_source(log, target, **given)
        return forest, [str(each.message) for each in said]

    first, said = grown(budget=90_000)
    assert (len(first), said) == (6, [])
    with open(log, "a") as stream:  # warmer than ever, and another window
        stream.writelines(f"{30 + i % 9},{i % 50},ajar,{i % 2}\n" for i in range(400))
    again, [said] = grown(budget=90_000)
    assert said == (
        f"{log} has 400 rows more than the 1,000 that {path} was trained on: adding trees to its "
        "6, trained on all 1,400"
    )
    assert len(again) == 12
    assert again.limit == 180_000 >= again.spent.insertions > first.spent.insertions
    assert noted(path) == (1400, True)
    assert again.feature[: len(first.feature)] == first.feature, "the old trees come first"
    rows = [[20.0, 310, "open"], [19.2, 5, "shut"], [21.0, 330, None]]
    if target == "temp":
        rows = [[310, "open", 1], [5, "shut", 0]]
        old = combined = 0.0
        half = edgeforest.load(again.to_json())
        keep = edgeforest.forests.merging.keep(half, range(6))
        for row in rows:
            old, combined = first.predict(row), keep.predict(row)
            assert abs(old - combined) < 0.01, "but for the rounding of a wider range"
        assert again.low + again.span >= 38
    else:
        keep = edgeforest.forests.merging.keep(again, range(6))
        assert keep.predict(rows) == first.predict(rows)
    assert grown(budget=90_000)[0].to_json() == again.to_json(), "there is nothing new"
    # Killed in the midst of it, it goes on to the same forest.
    append(log, range(2000, 2100))
    kept = path.read_bytes()
    whole = grown(budget=90_000)[0].to_json()
    assert len(edgeforest.load(whole)) == 18
    for stop in (13, 17):
        path.write_bytes(kept)
        options = {**OPTIONS, "checkpoint": path, "resume": True, "refresh": True}
        training = Streaming(open_source(log), target, budget=90_000, **options)
        assert (training.base, training.planned) == (12, 18)
        for _ in training:
            if len(training.grown) == stop:
                break
        half = path.read_bytes()
        for base in (0, -1, 19, stop, True, "x", None, 1):
            path.write_text(altered(path, lambda state, base=base: state.update(base=base)))
            with pytest.raises(ValueError, match=r"holds no checkpoint|begun with other"):
                grown(budget=90_000)
            path.write_bytes(half)
        assert grown(budget=90_000)[0].to_json() == whole
    path.write_bytes(kept)
    log.unlink()
    append(log, range(5000, 5200))
    rotated, [said] = grown(budget=90_000)
    assert "no longer begins with" in said
    assert len(rotated) == 18, "what the old log said is not forgotten"


def test_refresh_needs_the_same_columns_and_a_checkpoint(log, tmp_path):
    path = tmp_path / "model.json"
    with pytest.raises(ValueError, match="give resume=True"):
        train_source(log, "occupied", refresh=True, checkpoint=path)
    resumed(log, path)
    log.write_text("a,occupied\n" + "1,0\n2,1\n" * 50)
    with pytest.raises(ValueError, match="begun with other names"):
        resumed(log, path, refresh=True)
    assert noted(path) == (1000, True)
    assert len(resumed(log, path)[0])


# ---- While it is trained from


@pytest.mark.parametrize("pools", [False, True])
def test_a_thread_that_appends_does_not_disturb(pools, log, tmp_path, monkeypatch):
    if pools:  # rows are read again and again
        monkeypatch.setattr(drawn, "BYTES", 1_070_000)
    options = {"max_samples": 300} if pools else {}
    expected = trained(log, **options)
    source = open_source(log)
    ended = threading.Event()

    def write():
        for i in range(1000, 4000):
            append(log, [i])
            if ended.wait(0.0005):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        path = tmp_path / "model.json"
        training = Streaming(source, "occupied", checkpoint=path, **OPTIONS, **options)
        assert (training.pools.size < 1000) == pools
        for _ in training:
            pass
    finally:
        ended.set()
        writer.join()
    assert len(open_source(log)) > 1000
    assert training.forest().to_json() == expected
    assert noted(path) == (1000, True)


@pytest.mark.parametrize("how", ["rename", "copytruncate"])
def test_a_log_that_is_rotated_during_training(how, log, tmp_path):
    path = tmp_path / "model.json"
    training = Streaming(open_source(log), "occupied", checkpoint=path, **OPTIONS)
    with pytest.raises(SourceError, match="since it was opened") as caught:  # noqa: PT012
        for _ in training:
            if len(training.grown) == 2 and noted(path)[0] == 1000:
                if how == "rename":
                    log.rename(tmp_path / "log.csv.1")
                    append(log, range(9000, 9010))
                else:
                    shutil.copy(log, tmp_path / "log.csv.1")
                    os.truncate(log, 0)
                training.source.check()
    assert ("shrank" in str(caught.value)) or ("replaced" in str(caught.value))
    assert noted(path) == (1000, False)
    log.unlink(missing_ok=True)
    append(log, range(9000, 9500))
    forest, [said] = resumed(log, path)
    assert "training anew on its 500 rows" in said
    assert forest == trained(log)


# ---- Forged checkpoints


def seal(text):
    body = text[: text.rindex(',"crc32"')]
    return f'{body},"crc32":"{zlib.crc32(body.encode()):08x}"}}\n'


def altered(path, change):
    """The checkpoint with another state, and a checksum that fits."""
    text = path.read_text()
    start = text.index(',"training":') + len(',"training":')
    end = text.rindex(',"crc32"')
    state = json.loads(text[start:end])
    changed = change(state)
    state = state if changed is None else changed[0]
    return seal(text[:start] + json.dumps(state) + text[end:])


def test_a_state_that_no_training_left_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)  # the disk has enough to do
    path, log = tmp_path / "model.json", tmp_path / "log.csv"
    append(log, range(200))
    wrong = (None, True, -1, 2, 1e400, float("nan"), "x", [], {}, [[]], [None] * 3, 10**400)
    for done in (False, True):
        path.unlink(missing_ok=True)
        if done:
            resumed(log, path)
        else:
            cut_after(2, log, path)
        kept, whole = path.read_bytes(), trained(log)
        tried = refused = gone_on = 0
        fields = [("signature",), ("log",), ("done",)]
        fields += [] if done else [("importance",), ("seconds",), ("importance", 1)]
        fields += [("log", name) for name in ("rows", "crc32", "place", "folder", "name", "bytes")]
        fields += [("signature", name) for name in ("rows", "trees", "seed", "features", "options")]
        for field in fields:
            for value in ("missing", *wrong[done::2]):  # one half of them here, one half there

                def change(state, field=field, value=value):
                    *above, last = field
                    for name in above:
                        state = state[name]
                    if value == "missing":
                        state.pop(last)
                    else:
                        state[last] = value

                path.write_text(altered(path, change))
                tried += 1
                try:
                    forest, _ = resumed(log, path)
                    gone_on += 1
                    assert forest == whole, (field, value)
                except ValueError as error:
                    refused += "\n" not in str(error)
                path.write_bytes(kept)
        assert tried == refused + gone_on
        assert refused > 4 * len(fields)
        for state in wrong:
            path.write_text(altered(path, lambda _, state=state: [state]))
            with pytest.raises(ValueError, match=r"does not say which rows|checkpoint|damaged"):
                resumed(log, path)
            path.write_bytes(kept)


def test_trees_of_another_forest_are_refused(log, tmp_path):
    path, other = tmp_path / "model.json", tmp_path / "other.json"
    cut_after(2, log, path)
    state = storage.read(path)[1]
    rows = [[i % 7, i % 5, i % 3] for i in range(90)]
    names = ["temp", "light", "window"]
    kinds = {"categorical": [2]}
    rows = [[a, b, "open" if c else "shut"] for a, b, c in rows]
    for labels, options in (
        ([i % 3 for i in range(90)], {"names": ["a", "b", "c"], **kinds}),
        ([f"{i % 3}" for i in range(90)], {"names": names, **kinds}),
        ([i % 2 for i in range(90)], {"names": names, "kind": "extra-trees", **kinds}),
        ([i % 2 for i in range(90)], {"names": names, "n_trees": 9, **kinds}),
        ([i / 2 for i in range(90)], {"names": names, "criterion": "mse", **kinds}),
    ):
        forest = edgeforest.train(rows, labels, seed=3, **{"n_trees": 2, **options})
        storage.write(forest, other, state)
        with pytest.raises(ValueError, match=r"was begun with other|holds no checkpoint"):
            resumed(log, other)
    edgeforest.train(rows, [i % 2 for i in range(90)], n_trees=2, **kinds).save(other)
    with pytest.raises(ValueError, match="does not say which rows it was trained on"):
        resumed(log, other)
    learner = edgeforest.OnlineForest(names, classes=[0, 1])
    for i in range(50):
        learner.update([i, i % 3, i % 2], i % 2)
    learner.save(other)
    with pytest.raises(ValueError, match="does not say which rows it was trained on"):
        resumed(log, other)


# ---- The command line


def test_the_command_line_goes_on_with_a_log_that_grew(log, tmp_path, capsys, monkeypatch):
    path, out = tmp_path / "night.json", tmp_path / "model.json"
    command = ["train", str(log), "--target", "occupied", "--trees", "5", "--max-depth", "4"]
    command += ["--resume", "--checkpoint", str(path), "--out", str(out)]
    write = storage.write

    def cut(forest, *rest):
        write(forest, *rest)
        if len(forest) == 2:
            raise PowerCut

    with monkeypatch.context() as patch:
        patch.setattr(streaming.storage, "write", cut)
        with pytest.raises(PowerCut):
            cli.main(command)
    assert noted(path) == (1000, False)
    assert cli.main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "rows       1,000 rows of log.csv; not done yet: train --resume goes on\n" in said
    assert not out.exists()
    append(log, range(1000, 1200))
    with open(log, "a") as stream:
        stream.write("20.1,3")  # the logger is in the middle of it
    saved = []
    with monkeypatch.context() as patch:
        patch.setattr(train, "save", lambda forest, where, stdout: saved.append(len(forest)))
        capsys.readouterr()
        assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert f"{path} was begun with the first 1,000 of the 1,200 rows of {log}: finishing" in text
    assert f"resumed    {path}: 2 of 5 trees were done\n" in text
    assert f"{log} has 200 rows more than the 1,000 that {path} was trained on: training" in text
    assert "line 1202 is left out: it has no line end and is half-written" in text
    assert saved == [5, 5]
    assert noted(path) == (1200, True)
    assert cli.main(command) == 0
    assert "5 of 5 trees were done; remove it to train anew" in capsys.readouterr().out
    with open(log, "a") as stream:
        stream.write("9,open,1\n")
    append(log, range(1300, 1310))
    assert cli.main([*command, "--refresh"]) == 0
    text = capsys.readouterr().out
    assert "trained on: adding trees to its 5, trained on all 1,211\n" in text
    assert "10 trees" in text
    assert len(edgeforest.load(out)) == 10
    assert cli.main([*command[:8], "--refresh"]) == 2
    assert "--refresh adds trees to a finished checkpoint; give --resume" in capsys.readouterr().err
    other = tmp_path / "other.csv"
    append(other, range(50, 900))
    command[1] = str(other)
    assert cli.main(command) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"edgeforest: {path} was trained on 1,211 rows of log.csv, and {other}")
    assert err.count("\n") == 1


# ---- Thirty nights


@pytest.fixture(scope="module")
def job():
    """The nightly job of the example, in this process."""
    spec = importlib.util.spec_from_file_location("train_from_log", JOB)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_thirty_nights_with_power_cuts(job, tmp_path, monkeypatch, capsys, figure):
    """Whatever happens, each night ends with a model of all rows that the log has then."""
    chance = random.Random(5)
    log, model = tmp_path / "log.csv", tmp_path / "model.json"
    checkpoint = tmp_path / "model.training.json"
    command = [
        str(log),
        "--target",
        "occupied",
        "--trees",
        "8",
        "--depth",
        "4",
        "--out",
        str(model),
    ]
    monkeypatch.setattr(job.signal, "signal", lambda *_: None)
    write, plug = storage.write, [0]

    def cut(forest, *rest):
        if plug[0] == 1:
            raise PowerCut
        write(forest, *rest)
        plug[0] -= 1

    monkeypatch.setattr(streaming.storage, "write", cut)
    cuts = kills = rotations = n = 0
    for night in range(30):
        if night in (11, 23):  # logrotate
            log.rename(tmp_path / f"log.{night}")
            rotations += 1
            n = 0
        rows = chance.randrange(150, 300) if n else 400
        append(log, range(night * 1000, night * 1000 + rows))
        n += rows
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
            plug[0] = chance.randrange(1, 10)
            try:
                job.main(command)
            except PowerCut:
                cuts += 1
                if checkpoint.exists():
                    edgeforest.load(checkpoint)
            if chance.random() < 0.7:  # the sensor goes on before the Pi is started again
                append(log, range(night * 1000 + 500, night * 1000 + 520))
                n += 20
        if night in (3, 12, 20):
            append(log, range(night * 1000 + 600, night * 1000 + 610))
            n += 10
            kills += killed(command, chance.randrange(1, 9))
        plug[0] = 0
        job.main(command)
        assert noted(checkpoint) == (n, True), night
        assert f"trees from {n:,} rows" in capsys.readouterr().out
        assert edgeforest.load(model).to_json() == edgeforest.load(checkpoint).to_json()
    expected = train_source(
        log, "occupied", n_trees=8, max_depth=4, budget=Budget(seconds=600, bytes=64_000_000)
    )
    assert edgeforest.load(model).to_json() == expected.to_json()
    figure(f"30 nights, {cuts} power cuts, {kills} kills, {rotations} rotations: no night lost")
    assert cuts > 15
    assert kills == 3


KILLED = """
import os, runpy, signal, sys
from edgeforest import storage
write, left = storage.write, int(sys.argv[1])
def cut(*given):
    global left
    write(*given)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
storage.write = cut
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def killed(command, trees):
    """Start the job as cron does, and kill -9 it when it has that many trees."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(trees), str(JOB), *command], capture_output=True
    )
    return done.returncode == -signal.SIGKILL
