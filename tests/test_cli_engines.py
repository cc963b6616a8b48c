"""edgeforest engines, and engines that are not there."""

import re

from command_line import refused

from edgeforest import cli, engine


def test_engines_says_which_are_there_and_which_is_used(capsys, monkeypatch):
    monkeypatch.delenv("EDGEFOREST_ENGINE", raising=False)
    assert cli.main(["engines"]) == 0
    text = capsys.readouterr().out
    found = re.findall(r"^(\w+) +(present|absent): ", text, re.MULTILINE)
    present = [name for name, how in found if how == "present"]
    assert present == engine.present()
    assert sorted(name for name, _ in found) == sorted(engine.NAMES)
    assert re.search(rf"^used +{present[0]}, the fastest that is present; ", text, re.MULTILINE)
    monkeypatch.setenv("EDGEFOREST_ENGINE", "pure")
    assert cli.main(["engines"]) == 0
    assert "used       pure, because EDGEFOREST_ENGINE=pure" in capsys.readouterr().out


def test_an_engine_that_is_not_there_is_refused_before_any_work(log, model, capsys, monkeypatch):
    absent = engine.Absent("native", ImportError("of another machine"))

    def import_module(name):
        if name == "edgeforest.engines.native":
            raise ImportError("of another machine")
        return engine.core_pure

    monkeypatch.setattr(engine, "import_module", import_module)
    command = ("train", "gone.csv", "--target", "activity", "--engine", "native")
    assert refused(capsys, *command) == f"{absent}, or leave engine out"
    for wish, expected in (
        ("native", f"{absent}, or unset EDGEFOREST_ENGINE"),
        ("fast", "EDGEFOREST_ENGINE must be one of native, numpy, pure, got 'fast'"),
    ):
        monkeypatch.setenv("EDGEFOREST_ENGINE", wish)
        for command in (
            ("train", "gone.csv", "--target", "activity"),
            ("predict", model, log),
            ("inspect", model),
            ("demo", "--out", log / "demo"),
            ("engines",),
        ):
            assert refused(capsys, *command) == expected
