"""edgeforest inspect: what it says of a model."""

import re

from command_line import refused, table

import edgeforest
from edgeforest import cli
from edgeforest.forests.walking import depth


def test_inspect_says_what_a_model_is(log, model, capsys):
    capsys.readouterr()
    assert cli.main(["inspect", str(model)]) == 0
    text = capsys.readouterr().out
    forest = edgeforest.load(str(model))
    for expected in (
        "random-forest for classification",
        "criterion gini, splitter mab, seed 0",
        f"{forest.spent.insertions:,} of 30,000 insertions",
        f"{len(forest)} trees, {len(forest.feature):,} nodes, at most {depth(forest)} deep",
        "3 classes: empty, meeting, working",
        "categorical: closed, open, tilted",
        f"{model.stat().st_size / 1000:.1f} kB",
    ):
        assert expected in text
    for name in forest.names:
        assert re.search(rf"^  {name} +0\.\d+ +#* +(number|categorical)", text, re.MULTILINE)


def test_depth_is_the_longest_way_down(model):
    forest = edgeforest.load(str(model))

    def down(node):
        if forest.split(node) is None:
            return 0
        return 1 + max(down(node + 1), down(forest.right[node]))

    assert depth(forest) == max(down(root) for root in forest.roots)


def test_files_that_are_not_models(log, model, tmp_path, capsys):
    for command in (("inspect",), ("predict",)):
        rest = (log,) if command == ("predict",) else ()
        said = refused(capsys, *command, log, *rest)
        assert said.startswith(f"{log}: this is not an EdgeForest model")
        text = model.read_text()
        cut = table(tmp_path, text[:-20], "cut.json")
        assert said != refused(capsys, *command, cut, *rest)
        altered = table(tmp_path, text.replace('"seed":0', '"seed":1'), "altered.json")
        assert "altered" in refused(capsys, *command, altered, *rest)
