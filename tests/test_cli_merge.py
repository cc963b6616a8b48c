"""edgeforest merge: what it joins and refuses."""

import re

import pytest
from command_line import refused, write

import edgeforest
from edgeforest import cli
from edgeforest.forests.merging import merge
from edgeforest.forests.walking import depth
from edgeforest.host import words


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two models of the same log; each saw another of three labels."""
    folder = tmp_path_factory.mktemp("two")
    paths = []
    for n, label in enumerate(("cold", "hot")):
        rows = [[i, "ab"[i % 2], label if i > 40 else "fine"] for i in range(60)]
        write(folder / "log.csv", [["x", "kind", "y"], *rows])
        paths.append(str(folder / f"{n}.json"))
        common = ["--target", "y", "--trees", str(3 + n), "--budget", "9k", "--out", paths[n]]
        assert cli.main(["train", str(folder / "log.csv"), *common]) == 0
    return paths


def test_merge_says_what_was_joined(two, tmp_path, capsys):
    out = tmp_path / "joined.json"
    capsys.readouterr()
    assert cli.main(["merge", *two, "--out", str(out)]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    forest = edgeforest.load(str(out))
    assert len(forest) == 7
    assert forest.classes == ["cold", "fine", "hot"]
    nodes = f"{len(forest.feature)} nodes, at most {depth(forest)} deep"
    for expected in (f"{two[0]}: 3 trees, ", f"{two[1]}: 4 trees, ", f"7 trees, {nodes}"):
        assert expected in text
    assert "3 classes: cold, fine, hot" in text
    assert f"{out}, {words.file_size(out.stat().st_size)}" in text
    assert cli.main(["inspect", str(out)]) == 0
    assert "9,000 insertions" in capsys.readouterr().out


def test_merge_joins_as_the_library_does(two, tmp_path):
    out = tmp_path / "joined.json"
    limits = ["--weights", "1,2.5", "--max-trees", "5"]
    assert cli.main(["merge", *two, "--out", str(out), *limits]) == 0
    expected = merge([edgeforest.load(path) for path in two], [1, 2.5], max_trees=5)
    assert out.read_text() == expected.to_json() + "\n"


def test_merge_keeps_to_a_size_and_says_what_is_left_out(two, tmp_path, capsys):
    out = tmp_path / "joined.json"
    assert cli.main(["merge", *two, "--out", str(out), "--max-trees", "4"]) == 0
    assert "(3 trees left out)" in capsys.readouterr().out
    size = out.stat().st_size
    for limit, trees in ((size, 4), (size - 1, 3)):
        assert cli.main(["merge", *two, "--out", str(out), "--max-bytes", str(limit)]) == 0
        assert len(edgeforest.load(str(out))) == trees
        assert out.stat().st_size <= limit
    said = refused(capsys, "merge", *two, "--out", out, "--max-bytes", "100")
    least = re.fullmatch(r"one tree needs --max-bytes (\d+), got 100; give more", said)[1]
    assert cli.main(["merge", *two, "--out", str(out), "--max-bytes", least]) == 0
    assert out.stat().st_size == int(least)
    assert "got" in refused(capsys, "merge", *two, "--out", out, "--max-bytes", str(int(least) - 1))


def test_merge_refuses_what_does_not_fit_together(two, model, log, tmp_path, capsys):
    out = tmp_path / "joined.json"
    said = refused(capsys, "merge", two[0], model, "--out", out)
    assert said == f"{model} has 6 features, {two[0]} has 2"
    said = refused(capsys, "merge", *two, "--weights", "1", "--out", out)
    assert said == "--weights must have one for each of 2 forests, got 1"
    assert "not all be 0" in refused(capsys, "merge", *two, "--weights", "0,0", "--out", out)
    assert "not an EdgeForest model" in refused(capsys, "merge", two[0], log, "--out", out)
    assert "no such file" in refused(capsys, "merge", two[0], "gone.json", "--out", out)
    assert "would overwrite" in refused(capsys, "merge", *two, "--out", two[1])
    assert not out.exists()
