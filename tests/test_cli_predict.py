"""edgeforest predict: what it writes, scores and refuses."""

import csv
import os
import re
import subprocess
import sys
from array import array

import pytest
from command_line import ROOT, numbers, prepared, refused, table, write

import edgeforest
from edgeforest import cli
from edgeforest.cli import demo
from edgeforest.host import words


def test_predict_gives_what_the_forest_gives(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(log)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    data = prepared(log, "activity")
    expected = edgeforest.load(str(model)).predict(data.rows)
    assert out.splitlines() == ["prediction", *expected]


def test_columns_are_found_by_name(log, model, tmp_path, capsys):
    with open(log, newline="") as stream:
        rows = list(csv.DictReader(stream))[:50]
    order = ["window", "extra", "vibration", "co2", "light", "humidity", "temperature"]
    shuffled = tmp_path / "shuffled.csv"
    write(shuffled, [order, *([row.get(name, "any") for name in order] for row in rows)], ";")
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(shuffled)]) == 0
    ours = capsys.readouterr().out.splitlines()
    assert cli.main(["predict", str(model), str(log)]) == 0
    assert ours == capsys.readouterr().out.splitlines()[:51]


def test_class_shares_add_up_and_agree_with_the_prediction(log, model, tmp_path, capsys):
    out = tmp_path / "shares.csv"
    assert cli.main(["predict", str(model), str(log), "--proba", "--out", str(out)]) == 0
    assert "1,500 predictions" in capsys.readouterr().out
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["prediction", "p_empty", "p_meeting", "p_working"]
    for row in rows:
        shares = {name[2:]: float(value) for name, value in row.items() if name[:2] == "p_"}
        assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
        assert shares[row["prediction"]] == max(shares.values())
    assert os.listdir(tmp_path) == ["shares.csv"]


def test_score_of_predictions_goes_to_stderr(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["predict", str(model), str(log), "--target", "activity"]) == 0
    out, err = capsys.readouterr()
    truth = [row[-1] for row in demo.sample_log(1500, seed=3)]
    right = sum(a == b for a, b in zip(out.split()[1:], truth, strict=True)) / 1500
    empty = truth.count("empty") / 1500
    assert err == f"accuracy {right:.3f} on 1,500 rows; {empty:.3f} by always guessing 'empty'\n"


def test_regression_predicts_float32_in_short(tmp_path, capsys):
    rows = [[i / 8, (i * 37 % 101) / 10] for i in range(300)]
    path = table(tmp_path, "x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    model = str(tmp_path / "model.json")
    assert cli.main(["train", path, "--target", "y", "--out", model, "--trees", "3"]) == 0
    capsys.readouterr()
    assert cli.main(["predict", model, path, "--target", "y"]) == 0
    out, err = capsys.readouterr()
    expected = edgeforest.load(model).predict([[x] for x, _ in rows])
    printed = out.split()[1:]
    assert [array("f", [float(text)])[0] for text in printed] == expected
    assert words.shortest(array("f", [23.45])[0]) == "23.45"
    error = sum((a - y) ** 2 for a, (_, y) in zip(expected, rows, strict=True)) / 300
    assert float(re.match(r"mean squared error ([\d.]+) on 300 rows;", err)[1]) == pytest.approx(
        error, rel=1e-3
    )


def test_numbers_as_categories_and_classes(tmp_path, capsys):
    lines = "".join(f"{i % 3},{i % 2},{int(i % 3 == 1)}\n" for i in range(120))
    path = table(tmp_path, "room,x,y\n" + lines)
    model = str(tmp_path / "model.json")
    assert cli.main(["train", path, "--target", "y", "--categorical", "room", "--out", model]) == 0
    assert "room (3 values)" in capsys.readouterr().out
    forest = edgeforest.load(model)
    assert forest.categories[0] == [0, 1, 2]
    assert forest.classes == [0, 1]
    other = table(tmp_path, "x,room,y\n0,1.0,1.0\n0,2,0\n0,9,1\n0,,\n0,1,surely\n", "other.csv")
    assert cli.main(["predict", model, other, "--target", "y"]) == 0
    out, err = capsys.readouterr()
    assert out.split()[1:3] == ["1", "0"]
    assert len(out.split()) == 6
    assert "note: room has values that the model has not met, such as '9'; they count as" in err
    right = 2 + (out.split()[3] == "1")  # "surely" is no class, so it is right for nobody
    assert f"accuracy {right / 4:.3f} on 4 rows" in err


def test_a_broken_pipe_ends_quietly(log, model, tmp_path):
    big = tmp_path / "big.csv"
    write(big, [demo.COLUMNS, *demo.sample_log(1500) * 8])
    process = subprocess.Popen(
        [sys.executable, "-m", "edgeforest", "predict", str(model), str(big)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline().strip() == b"prediction"
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


def test_rows_that_cannot_be_read_have_no_prediction(tmp_path, capsys):
    model = str(tmp_path / "model.json")
    path = table(tmp_path, numbers(40))
    assert cli.main(["train", path, "--target", "y", "--out", model]) == 0
    bad = table(tmp_path, "x\n1\n2,3\n38\n", "bad.csv")
    assert "line 3 of" in refused(capsys, "predict", model, bad)
    assert cli.main(["predict", model, bad, "--max-bad", "1"]) == 0
    out, err = capsys.readouterr()
    assert out == 'prediction\nlow\n""\nhigh\n'
    assert err == "no prediction: line 3 has 2 values where there is 1 column\n"
    assert cli.main(["predict", model, bad, "--max-bad", "1", "--proba"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == ",,"


def test_no_such_column(log, model, tmp_path, capsys):
    said = refused(capsys, "train", log, "--target", "acitvity")
    assert f"{log} has no column 'acitvity'; it has time, temperature, humidity" in said
    for option in ("--drop", "--categorical"):
        said = refused(capsys, "train", log, "--target", "activity", option, "co2,nosuch")
        assert "no column 'nosuch'" in said
    assert "no column 'truth'" in refused(capsys, "predict", model, log, "--target", "truth")
    poor = table(tmp_path, "temperature,humidity\n1,2\n", "poor.csv")
    said = refused(capsys, "predict", model, poor)
    assert "has no column 'light', which the model was trained on; it has temperature" in said


def test_text_among_numbers(tmp_path, capsys, log, model):
    said = refused(capsys, "train", table(tmp_path, numbers(40, {7: "err"})), "--target", "y")
    assert "column 'x' holds numbers, but line 9 of" in said
    assert "log.csv has 'err'; fix it" in said
    assert "--categorical x or --drop x" in said
    said = refused(
        capsys, "train", table(tmp_path, "x,y\n" + "1,5\n" * 9 + "1,z\n"), "--target", "y"
    )
    assert "the target 'y' holds numbers, but line 11" in said
    late = table(tmp_path, "x,y\n1,\n2,a\n3,b\nerr,a\n5,b\n")
    assert "line 5 of" in refused(capsys, "train", late, "--target", "y")
    rows = demo.sample_log(3)
    rows[1][2] = "wet"
    bad = tmp_path / "bad.csv"
    write(bad, [demo.COLUMNS, *rows])
    out = tmp_path / "out.csv"
    said = refused(capsys, "predict", model, bad, "--out", out)
    assert f"line 3 of {bad} has 'wet' in column 'humidity', which must be a number" in said
    assert not list(tmp_path.glob("out*")), "nothing half written stays behind"


def test_numbers_beyond_float32(tmp_path, capsys, model):
    for bad in ("inf", "-1e39"):
        path = table(tmp_path, numbers(20, {3: bad}))
        said = refused(capsys, "train", path, "--target", "y")
        assert f"line 5 of {path} has {bad} in column 'x'" in said
        rows = demo.sample_log(1)
        rows[0][1] = bad
        write(tmp_path / "bad.csv", [demo.COLUMNS, *rows])
        said = refused(capsys, "predict", model, tmp_path / "bad.csv")
        assert f"has {bad!r} in column 'temperature'" in said
