"""Wrong calls: each is one sentence on stderr, and the documented exit code."""

import re

import pytest
from command_line import ROOT, numbers, refused, table

from edgeforest import cli

LOG = "temp,window,station,when,mood\n" + "".join(
    f"{i % 17},{'open' if i % 3 else 'shut'},s{i % 4},2024-05-0{1 + i // 10}T10:00,"
    f"{'warm' if i % 17 > 8 else 'cool'}\n"
    for i in range(60)
)
# A call, and what its sentence says. The files: see `files`.
WRONG = {
    "grow log.csv": "invalid choice: 'grow'",
    "train": "the following arguments are required: log",
    "train nowhere.csv --target mood": "cannot read nowhere.csv: no such file",
    "train empty.csv --target mood": "empty.csv is empty",
    "train log.csv": "--target must say which column to learn; log.csv has temp, window, station, when, mood",
    "train two.csv": "--target must say which of them to learn; two.csv has label, y",
    "train log.csv --target weather": "has no column 'weather'; it has temp, window",
    "train log.csv --target mood --budget lots": "--budget must be a number such as 500k",
    "train log.csv --target mood --seconds 5m": "--seconds must be a time such as 30s, 10min or 2h",
    "train log.csv --target mood --seconds 0s": "--seconds must be at least 0.001",
    "train log.csv --target mood --bytes 9kB": "--bytes must be at least ",
    "train log.csv --target mood --bytes heavy": "--bytes must be a size such as 64MB",
    "train log.csv --target mood --deadline noon": "--deadline must be a time such as 07:00",
    "train log.csv --target mood --deadline 2001-01-01T00:00": "--deadline is over",
    "train log.csv --target mood --holdout some": "invalid choice: 'some'",
    "train log.csv --target mood --group floor": "has no column 'floor'",
    "train log.csv --target mood --group mood": "--group mood is the target",
    "train log.csv --target mood --group station --holdout random": "--group leaves out groups",
    "train log.csv --target mood --calibrate": "--calibrate needs rows that are left out and a model",
    "train log.csv --target mood --json --quiet": "not allowed with argument",
    "train log.csv --target mood --json --out -": "--out - writes the model where --json prints",
    "train log.csv --target mood --max-features 1.5": "--max-features must be a whole number, or",
    "train log.csv --target mood --bins 1": "--bins must be a whole number from 2 to 255",
    "train log.csv --target mood --drop mood": "--drop names the target 'mood'",
    "train log.csv --target mood --out no/model.json": "there is no folder no; make it first",
    "train log.csv --target mood --out log.csv": "would overwrite what is read",
    "train log.csv - --target mood": "cannot be joined with files",
    "train log.csv --target mood --resume": "--resume goes on from a checkpoint",
    "train other.csv --target x --task classification": "has a different value in each",
    "evaluate model.json": "the following arguments are required: log",
    "evaluate log.csv log.csv": "this is not an EdgeForest model",
    "evaluate broken.json log.csv": "broken.json: the model is cut short",
    "evaluate model.json other.csv": "has no column 'temp', which the model was trained on",
    "evaluate model.json log.csv --target weather": "has no column 'weather'",
    "evaluate model.json log.csv --by floor": "has no column 'floor'",
    "evaluate model.json log.csv --trained-on log.csv": "give --baseline, too",
    "evaluate - -": "which holds a model or a log; give one as a file",
    "evaluate model.json bare.csv": "--target must say which column holds the truth",
    "predict model.json log.csv --proba --coverage 0.9": "model.json is not calibrated",
    "predict model.json log.csv --out no/such.csv": "there is no folder no",
    "predict - -": "which holds a model or a log; give one as a file",
    "inspect nowhere.json": "cannot read nowhere.json",
    "merge model.json --out model.json": "would overwrite what is read",
    "merge model.json numbers.json --out joined.json": "numbers.json is for regression",
    "export model.json model.exe": "the ending of model.exe must name a format",
    "verify model.json": "model.json: ",
    "pack log.csv --out log.bin": "--out must end in .npy, got log.bin",
    "pack nowhere.csv --out log.npy": "cannot read nowhere.csv",
    "completion tcsh": "invalid choice: 'tcsh'",
    "demo --rows 5": "--rows must be a whole number from 100",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    table(folder, LOG)
    table(folder, "", "empty.csv")
    table(folder, "label,y\n1,2\n", "two.csv")
    table(folder, numbers(40), "other.csv")
    table(folder, "temp,window\n3,open\n", "bare.csv")
    model = folder / "model.json"
    common = ["train", str(folder / "log.csv"), "--trees", "2", "--holdout", "none"]
    features = ["--drop", "station"]
    assert cli.main([*common, *features, "--target", "mood", "--out", str(model)]) == 0
    other = ["--target", "temp", "--out", str(folder / "numbers.json")]
    assert cli.main([*common, *other, "--task", "regression"]) == 0
    (folder / "broken.json").write_bytes(model.read_bytes()[:-30])
    return folder


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_one_sentence_and_code_2(call, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    said = refused(capsys, *call.split())
    assert WRONG[call] in said
    assert not re.search(r"\.\s+[A-Z]|\n", said), "one sentence"


def test_there_are_enough_of_them_and_the_codes_are_documented():
    assert len(WRONG) >= 40
    assert {call.split()[0] for call in WRONG} >= {"train", "evaluate", "predict", "pack", "merge"}
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for code in ("| 0 |", "| 2 |", "| 129, 130, 143 |", "| 141 |"):
        assert code in page
