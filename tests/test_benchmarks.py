"""The benchmarks of docs/benchmarks.md: their commands exist, and their loaders refuse wrong files."""

import gzip
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[test]'")

from benchmarks import __main__ as everything
from benchmarks import data, paper, paper_data, patches

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "benchmarks.md").read_text()


def test_every_command_of_the_page_is_a_benchmark():
    named = set(re.findall(r"python -m benchmarks\.(\w+)", PAGE))
    assert len(named) > 5
    for name in named | {one[0] for quick in (True, False) for one in everything.commands(quick)}:
        assert (ROOT / "benchmarks" / f"{name}.py").exists()


@pytest.mark.parametrize("quick", [True, False])
def test_all_of_the_page_is_run_by_one_command(quick):
    run = {one[0] for one in everything.commands(quick)}
    assert {"paper", "patches", "paper_figures", "guarantee", "coverage", "accuracy"} == run


def test_missing_values_come_from_the_next_row():
    assert paper_data.filled(["NA", "1", "", "NA", "2", ""]) == ["1", "1", "2", "2", "2", "2"]


def test_numbers_become_bytes_in_their_order():
    values = np.arange(1000.0)[::-1]
    found = paper_data.as_bytes(values)
    assert found.dtype == np.uint8
    assert found[[0, -1]].tolist() == [255, 0]
    assert (np.diff(found.astype(int)) <= 0).all()
    assert paper_data.as_bytes(np.array([5.0, -1.0, 5.0])).tolist() == [255, 0, 255]


AIR_LINES = """No,year,month,day,hour,PM2.5,PM10,SO2,NO2,CO,O3,TEMP,PRES,DEWP,RAIN,wd,WSPM,station
1,2013,3,1,0,4,4,4,7,300,NA,-0.7,1023,-18.8,0,NNW,4.4,A
2,2013,3,1,1,NA,8,4,7,300,77,-1.1,1023.2,-18.2,0,N,4.7,A
3,2013,3,1,2,7,7,5,10,300,73,-1.1,1023.5,-18.2,0,NNW,4.4,B
"""


def test_the_air_as_the_papers_code_has_it(tmp_path):
    (tmp_path / "beijing_air_quality.csv.gz").write_bytes(gzip.compress(AIR_LINES.encode()))
    table = paper_data.air_as_coded(str(tmp_path), in_order=True)
    assert table.X.shape == (2, 2 + 2 + 12)
    assert len(table.y_test) == 1
    assert table.y.tolist() == [77.0, 77.0]
    assert table.y_test.tolist() == [73.0]
    assert table.X[:, :4].tolist() == [[1, 0, 1, 0], [1, 0, 0, 1]]
    assert table.X[:, 8].tolist() == [0, 255]  # PM2.5: the second is the third's


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("covtype.data.gz", paper_data.covertype),
        ("aps+failure+at+scania+trucks.zip", paper_data.aps),
    ],
)
def test_a_file_of_another_checksum_is_refused(tmp_path, name, load):
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(SystemExit, match=re.escape(f"{name} must have the SHA-256")):
        load(str(tmp_path))


def test_an_archive_without_its_table_is_refused(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("readme.txt", "")
    path = tmp_path / "sgemm+gpu+kernel+performance.zip"
    path.write_bytes(content.getvalue())
    with pytest.raises(SystemExit, match=r"must hold sgemm_product.csv, got \['readme.txt'\]"):
        paper_data.sgemm(str(tmp_path))


def test_a_table_of_too_few_rows_is_refused(tmp_path):
    head = "preamble\n" + ",".join(["class", "aa_000"]) + "\n"
    (tmp_path / "aps_failure_training_set.csv").write_text(head + "neg,1\npos,na\n")
    with pytest.raises(SystemExit, match=r"must have classes .*got \{'neg': 1, 'pos': 1\}"):
        paper_data.aps(str(tmp_path))


def tiny() -> data.Table:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(300, 6)).astype(np.uint8)
    y = X[:, 0] + rng.normal(size=300)
    return data.Table("tiny", True, X[:200], y[:200], X[200:], y[200:])


def test_patches_by_tree_keep_to_the_budget():
    options = patches.COMMON | {"n_trees": 5, "budget": 9_000, "seed": 1, **patches.TEXT}
    predicted, insertions, trees = patches.by_tree(tiny(), options)
    assert insertions <= 9_000
    assert trees == 5
    assert np.mean((predicted - tiny().y_test) ** 2) < np.var(tiny().y_test)


def test_the_columns_that_the_paper_has_not_are_left_out(capsys):
    experiment = next(e for e in paper.EXPERIMENTS if e.table == 2 and not e.coded)
    paper.show(experiment, tiny(), paper.measure(experiment, tiny(), 2, ["exact", "mab"]))
    head = capsys.readouterr().out.strip().splitlines()[2]
    assert head == "| model | splitter | CPU s | insertions | MSE | the paper: seconds | MSE |"
