"""Models that earlier commits wrote are read, answer as they did, and are written back unchanged.

docs/model-format.md promises it: a release reads its own format and all earlier ones. The folders in
tests/data were written once by tools/make_format_models.py and never change.
"""

import json
import re
from pathlib import Path

import pytest

import edgeforest
from edgeforest import storage
from edgeforest.reader import read_model

pytestmark = pytest.mark.usefixtures("engine")

DATA = Path(__file__).parent / "data"
MODELS = sorted(path for path in DATA.glob("format-*/*.json") if not path.stem.endswith(".rows"))
WITH_STATE = ("checkpoint", "online")  # a model, and what its training needs to go on
PLAIN = [path for path in MODELS if path.stem not in WITH_STATE]


def said(path):
    """Rows, and what the model answered for them when it was written."""
    return json.loads(path.with_suffix(".rows.json").read_text(encoding="utf-8"))


def name(path):
    return f"{path.parent.name}-{path.stem}"


def test_every_format_has_models_of_every_sort():
    written = {int(path.parent.name.removeprefix("format-")) for path in MODELS}
    today = json.loads(edgeforest.train([[0], [1]] * 9, [0, 1] * 9, n_trees=1).to_json())["version"]
    assert written == set(range(2, today + 1)), "run tools/make_format_models.py for a new format"
    for version in written:
        stems = {path.stem for path in MODELS if path.parent.name == f"format-{version}"}
        assert {"classes", "regression", "missing", "many-classes", "merged", *WITH_STATE} <= stems


@pytest.mark.parametrize("path", MODELS, ids=name)
@pytest.mark.parametrize("read", [edgeforest.load, read_model], ids=["load", "read_model"])
def test_a_model_answers_as_it_did_when_it_was_written(path, read):
    forest, expected = read(str(path)), said(path)
    assert forest.predict(expected["rows"]) == expected["predictions"]
    assert [forest.predict(row) for row in expected["rows"]] == expected["predictions"]
    assert (forest.classes is None) == ("shares" not in expected)
    if forest.classes is not None:
        assert forest.predict_proba(expected["rows"]) == expected["shares"]


@pytest.mark.parametrize("path", PLAIN, ids=name)
def test_a_model_is_written_back_byte_for_byte(path, tmp_path):
    edgeforest.load(path).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", [p for p in MODELS if p.stem == "online"], ids=name)
def test_an_online_forest_is_written_back_byte_for_byte_and_learns_on(path, tmp_path):
    learner = edgeforest.OnlineForest.load(path)
    learner.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    rows = learner.rows
    learner.update(said(path)["rows"][0], "cool")
    assert learner.rows == rows + 1


@pytest.mark.parametrize("path", [p for p in MODELS if p.stem == "checkpoint"], ids=name)
def test_a_checkpoint_goes_on_with_the_trees_that_it_has(path, tmp_path):
    """The others are those of this version, which may find other splits than the old one did."""
    expected, copy = said(path), tmp_path / "checkpoint.json"
    copy.write_bytes(path.read_bytes())
    kept = edgeforest.load(copy)
    assert len(kept) == 2
    training = storage.Resumable(
        expected["rows"],
        expected["labels"],
        str(copy),
        resume=True,
        n_trees=4,
        max_depth=3,
        seed=6,
    )
    assert all(len(step.grown) >= 2 for step in training), "it began anew"
    forest = training.forest()
    assert len(forest) == 4
    for part in ("feature", "threshold", "right", "votes"):
        known = list(getattr(kept, part))
        assert list(getattr(forest, part))[: len(known)] == known


def test_a_newer_format_is_refused_in_one_sentence(tmp_path):
    text = next(path for path in PLAIN if path.stem == "classes").read_text(encoding="utf-8")
    newer = re.sub(r'"version":\d+', '"version":99', text)
    (tmp_path / "newer.json").write_text(newer, encoding="utf-8")
    with pytest.raises(ValueError, match="99"):
        edgeforest.load(tmp_path / "newer.json")
