"""Files that commands write: complete, kept elsewhere, or refused before any work."""

import os
import re
from pathlib import Path

import pytest
from command_line import refused

import edgeforest
from edgeforest import cli
from edgeforest.cli import logs as reading
from edgeforest.cli import saving
from edgeforest.host import disk


def test_missing_files_and_folders(tmp_path, capsys, model, log):
    gone = tmp_path / "gone.csv"
    assert refused(capsys, "train", gone, "--target", "y") == (
        f"cannot read {gone}: no such file or directory"
    )
    assert "no such file" in refused(capsys, "predict", model, gone)
    assert "no such file" in refused(capsys, "inspect", gone)
    assert "is a directory" in refused(capsys, "train", tmp_path, "--target", "y")
    nowhere = tmp_path / "none" / "model.json"
    for command in (("train", log, "--target", "activity"), ("predict", model, log)):
        assert "there is no folder" in refused(capsys, *command, "--out", nowhere)
        assert "it is a folder" in refused(capsys, *command, "--out", tmp_path)
    assert "cannot write to" in refused(capsys, "demo", "--out", log / "demo")


def test_inputs_are_not_overwritten(log, model, capsys):
    before = log.read_bytes(), model.read_bytes()
    command = ("train", log, "--target", "activity", "--out", log)
    assert "would overwrite what is read" in refused(capsys, *command)
    for out in (log, model):
        assert "would overwrite" in refused(capsys, "predict", model, log, "--out", out)
    assert (log.read_bytes(), model.read_bytes()) == before


def test_a_forest_that_cannot_be_written_is_kept_elsewhere(log, tmp_path, capsys, monkeypatch):
    """The folder of the model, this one, the home and the temporary ones fill up one by one."""
    places = [tmp_path / name for name in ("models", "here", "home", "temporary")]
    for place in places:
        place.mkdir()
    monkeypatch.chdir(places[1])
    monkeypatch.setenv("HOME", str(places[2]))
    monkeypatch.setenv("USERPROFILE", str(places[2]))
    monkeypatch.setattr(saving.tempfile, "tempdir", str(places[3]))
    out = places[0] / "model.json"
    out.write_text("old")
    full = {str(out)}
    really = disk._create

    def create(part, mode, there):
        if os.path.dirname(part) in full or (str(out) in full and ".model.json." in part):
            raise OSError(28, "No space left on device", part)
        return really(part, mode, there)

    monkeypatch.setattr(disk, "_create", create)
    command = ["train", log, "--target", "activity", "--budget", "2k", "--out", out]
    for place in places:
        said = refused(capsys, *command)
        found = re.fullmatch(
            rf"cannot write {out}: no space left on device; the model is in (.*) instead", said
        )
        kept = Path(found[1])
        assert kept.parent == place
        assert re.fullmatch(r"model-[0-9a-f]{8}\.json", kept.name)
        assert len(edgeforest.load(str(kept))) >= 1
        assert [p.name for p in place.iterdir() if p != out] == [kept.name], "no stray"
        full.add(str(place))
    assert refused(capsys, *command) == (
        f"cannot write {out}: no space left on device; it cannot be kept in this folder, at "
        "home or among temporary files either"
    )
    assert out.read_text() == "old"


@pytest.mark.parametrize("command", ["train", "merge", "predict", "export"])
def test_ctrl_c_while_a_file_is_written_leaves_the_old_one_and_nothing_else(
    command, log, model, tmp_path, capsys, monkeypatch
):
    out = tmp_path / "out" / "old.json"
    out.parent.mkdir()
    out.write_text("old")
    given = {
        "train": [log, "--target", "activity", "--budget", "2k", "--out"],
        "merge": [model, "--out"],
        "predict": [model, log, "--out"],
        "export": [model],
    }[command]

    def interrupt(number):
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "_sync", interrupt)
    assert cli.main([command, *map(str, given), str(out)]) == 130
    assert capsys.readouterr().err == "edgeforest: stopped by Ctrl-C\n"
    assert out.read_text() == "old"
    assert os.listdir(out.parent) == ["old.json"]


def test_a_folder_that_cannot_be_written_to_is_refused_before_any_work(
    log, model, tmp_path, capsys, monkeypatch
):
    shut = tmp_path / "shut"
    shut.mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(shut / "model.json")
    monkeypatch.setattr(os, "access", lambda path, how: Path(path) != shut)  # root may everywhere
    monkeypatch.setattr(reading, "opened", None)
    for out in (shut / "model.json", link):
        expected = f"cannot write {out}: {shut} is write-protected; choose another folder"
        assert refused(capsys, "train", log, "--target", "activity", "--out", out) == expected
        assert refused(capsys, "merge", model, "--out", out) == expected
        assert refused(capsys, "predict", model, log, "--out", out) == expected
