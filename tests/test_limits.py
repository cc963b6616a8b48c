"""Limits that honest data never meets: each is one sentence, soon, and in little memory."""

import json
import math
import os
import sqlite3
import tracemalloc
import zlib

import numpy as np
import pytest

import edgeforest
from edgeforest import cli
from edgeforest.cli import arguments
from edgeforest.host import names
from edgeforest.sources import MAX_COLUMNS, SourceError, lines, open_source, schema
from edgeforest.sources.columns import distinct_names
from edgeforest.sources.schema import MAX_FEATURES, look

ENGINES = edgeforest.engine.present()
HALF = "a\ud800"  # half of a surrogate pair: JSON can write it, UTF-8 cannot


def put(folder, content, name="log.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(make, error=ValueError):
    """The sentence with which something is refused."""
    with pytest.raises(error) as caught:
        make()
    sentence = str(caught.value)
    assert len(sentence) < 600
    assert "\n" not in sentence
    return sentence


# ---- Columns


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_looking_at_many_columns_compares_each_name_a_few_times():
    n = 2000
    table = open_source({Counted(f"c{i}"): [i % 7, i % 5, 3, 4] for i in range(n)})
    table.names = [Counted(name) for name in table.names]
    Counted.compared = 0
    look(table, "c7", edgeforest.Rng(0), categorical=["c9"], drop=["c11"])
    assert Counted.compared < 50 * n, "it was n * n / 2"


@pytest.mark.parametrize("engine", ENGINES)
def test_many_categorical_features_are_found_by_name_in_one_pass(engine):
    n = 1000
    features = [f"c{i}" for i in range(n)]
    asked = [Counted(name) for name in features]
    Counted.compared = 0
    rows = [[i % 3] * n for i in range(8)]
    forest = edgeforest.train(
        rows, [0, 1] * 4, names=features, categorical=asked, n_trees=1, max_depth=1, engine=engine
    )
    assert all(forest.categories)
    assert Counted.compared < 5 * n, "it was n * n"


def test_names_that_come_again_are_numbered_in_one_pass():
    many = distinct_names(["a"] * 3000)
    assert many[:3] == ["a", "a.2", "a.3"]
    assert many[-1] == "a.3000"
    assert len(distinct_names(["a"] * MAX_COLUMNS)) == MAX_COLUMNS  # for ever, if it is quadratic


def test_more_columns_than_a_forest_has_features_are_refused_before_rows_are_read(tmp_path):
    n = MAX_FEATURES + 2
    row = ",".join("1" * n)
    path = put(tmp_path, ",".join(f"c{i}" for i in range(n)) + f"\n{row}\n{row}\n")
    with open_source(path) as source:
        source.read = None  # not called
        sentence = refused(lambda: edgeforest.train_source(source, "c0"), SourceError)
        assert "has 16,384 columns to learn from" in sentence
        assert "at most 16,383 features" in sentence


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log.csv", lambda i, n: ",".join(f"c{k}" for k in range(n))),
        ("log.jsonl", lambda i, n: json.dumps({f"c{i}.{k}": 1 for k in range(n)})),
        ("log.lp", lambda i, n: "a " + ",".join(f"c{i}.{k}=1" for k in range(n))),
    ],
)
def test_columns_without_end_are_refused(tmp_path, monkeypatch, name, line):
    """In one line, or some more in each of many."""
    monkeypatch.setattr(lines, "MAX_COLUMNS", 1000)
    for n, each in ((2, 1001), (40, 30)):
        if name == "log.csv" and each < 1000:
            continue
        path = put(tmp_path, "\n".join(line(i, each) for i in range(n)), name)
        assert "more than 1,000 columns" in refused(lambda p=path: open_source(p), SourceError)


def test_objects_in_objects_do_not_multiply_their_names(tmp_path):
    long = "k" * 100_000
    inner = {f"a{i}": 1 for i in range(1000)}
    path = put(tmp_path, json.dumps({long: inner}) + "\n", "log.jsonl")
    tracemalloc.start()
    try:
        sentence = refused(lambda: open_source(path), SourceError)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "a name of more than 1,000 characters" in sentence
    assert peak < 10e6, "a name for each would be 100 MB"
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert "JSON object" in refused(lambda: open_source(put(tmp_path, deep, "d.jsonl")))


def test_a_parquet_file_of_many_columns_is_opened_in_one_pass(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table({f"c{i}": [1.0, 2.0] for i in range(3000)}), path)
    with open_source(path) as source:
        assert len(source.names) == 3000
    columns = [pyarrow.array([1.0])] * 2
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["a", "a"]), path)
    assert "more than one column 'a'" in refused(lambda: open_source(path), SourceError)


# ---- Names and texts that are far too long


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x" * 1001, "has 1,001 characters, at most 1,000 are accepted; shorten it"),
        (HALF, "has half of a surrogate pair, which is not a character; replace it"),
    ],
)
def test_names_labels_and_categories_that_no_file_should_hold(engine, text, words):
    rows = [[i % 7, "ab"[i % 2]] for i in range(40)]
    labels = [i % 2 for i in range(40)]
    start = names.quoted(text)
    for what, X, y, features in (
        ("name", rows, labels, [text, "b"]),
        ("label", rows, [text if v else "b" for v in labels], None),
        ("category", [[a, text if b == "a" else b] for a, b in rows], labels, None),
    ):
        sentence = refused(
            lambda X=X, y=y, features=features: edgeforest.train(
                X, y, names=features, categorical=[1], n_trees=1, engine=engine
            )
        )
        assert sentence == f"the {what} {start} {words}"
    longest = "é" * 1000
    model = edgeforest.train(
        [[a, longest] for a, _ in rows],
        [longest + "" if v else "b" for v in labels],
        names=[longest, "b"],
        categorical=[1],
        n_trees=1,
        engine=engine,
    )
    assert edgeforest.load(model.to_json()).names[0] == longest


@pytest.mark.parametrize("engine", ["pure", "native"])
@pytest.mark.parametrize("text", ["x" * 1001, HALF])
def test_an_online_forest_refuses_them_too_and_goes_on(engine, text):
    if engine not in ENGINES:
        pytest.skip("there is no native engine")
    options = {"n_trees": 2, "engine": engine}
    assert "the name " in refused(lambda: edgeforest.OnlineForest([text, "b"], **options))
    assert "the label " in refused(lambda: edgeforest.OnlineForest(2, classes=[text], **options))
    learner = edgeforest.OnlineForest(["a", "b"], categorical=["b"], **options)
    for i in range(60):
        learner.update([i % 7, "uv"[i % 2]], "xy"[i % 2])
    assert "the label " in refused(lambda: learner.update([1, "u"], text))
    assert "the category " in refused(lambda: learner.update([1, text], "x"))
    for i in range(60):
        learner.update([i % 7, "uv"[i % 2]], "xy"[i % 2])
    assert edgeforest.load(learner.forest().to_json()).classes == ["x", "y"]


def signed(text):
    """A model's text with a checksum that fits."""
    head = text[: text.rindex(',"crc32":"')].encode()
    return head + b',"crc32":"%08x"}' % zlib.crc32(head)


def test_a_model_with_half_a_pair_is_refused_and_long_names_are_cut():
    rows = [[i % 7] for i in range(40)]
    model = edgeforest.train(rows, [i % 2 for i in range(40)], names=["QQ"], n_trees=1).to_json()
    sentence = refused(lambda: edgeforest.load(signed(model.replace("QQ", "a\\ud800"))))
    assert "damaged inside" in sentence
    sentence = refused(lambda: edgeforest.load(signed(model.replace("QQ", "x" * 10_000_000))))
    assert "has 10,000,000 characters" in sentence
    long = edgeforest.load(signed(model.replace("QQ", "x" * 60_000)))
    text = edgeforest.export_text(long)
    assert len(text) < 100_000
    assert "xxx... <= " in text
    assert len(str(edgeforest.explain(long, [3]))) < 10_000


@pytest.mark.parametrize("wide", [False, True])
def test_half_a_pair_in_json_lines_is_a_bad_row(tmp_path, wide):
    lines = [json.dumps({"x": i % 7, "y": "ab"[i % 2]}) for i in range(40)]
    lines[3] = '{"x": 1, "y": "\\ud800"}'
    lines[9] = '{"x": 1, "y": "a", "\\udfff": 2}'
    lines[11] = '{"x": 1, "y": "\\ud83d\\ude00"}'  # a whole pair
    path = put(tmp_path, "\n".join(lines), "log.jsonl")
    sentence = refused(lambda: open_source(path).read(range(40)), SourceError)
    assert "line 4 of" in sentence or "line 10 of" in sentence
    assert "half of a surrogate pair" in sentence
    with open_source(path, max_bad=2) as source:
        forest = edgeforest.train_source(source, "y", n_trees=1)
        assert source.bad == 2
    assert forest.classes == ["a", "b", "\U0001f600"]


def test_texts_that_are_far_too_long_are_no_categories(tmp_path):
    def log(cell, label):
        rows = "".join(
            f"{i},{cell if i % 2 else 'b'},{label if i % 3 else 'n'}\n" for i in range(60)
        )
        return put(tmp_path, f"x,word,y\n{rows}")

    for cells, column in ((("w" * 1001, "y"), "word"), (("a", "y" * 1001), "y")):
        path = log(*cells)
        for kinds in ([], ["word"]):
            sentence = refused(
                lambda p=path, k=kinds: edgeforest.train_source(p, "y", categorical=k)
            )
            assert "has 1,001 characters, at most 1,000 are accepted" in sentence
            assert repr(column) in sentence
    assert edgeforest.train_source(log("w" * 1001, "y"), "y", drop=["word"], n_trees=1).names == [
        "x"
    ]


def test_a_column_with_a_name_that_is_too_long(tmp_path):
    name = "n" * 2000
    database = tmp_path / "house.db"
    with sqlite3.connect(database) as connection:
        connection.execute(f"CREATE TABLE t (a, {name})")
        connection.execute("INSERT INTO t VALUES (1, 2), (3, 4)")
    connection.close()
    np.save(tmp_path / "log.npy", np.zeros(3, dtype=[(name, "f4"), ("b", "f4")]))
    for path in (
        put(tmp_path, f"a,{name}\n1,2\n3,4\n"),
        put(tmp_path, json.dumps({"a": 1, name: 2}), "log.jsonl"),
        put(tmp_path, f"air a=1,{name}=2", "log.lp"),
        database,
        tmp_path / "log.npy",
    ):
        sentence = refused(lambda p=path: open_source(p), SourceError)
        assert "has 2,000 characters, at most 1,000 are accepted; rename it" in sentence
        assert str(path) in sentence
        os.remove(path)
    table = open_source({name: [1, 2], "y": [0, 1]})
    assert "has 2,000 characters" in refused(lambda: edgeforest.train_source(table, "y"))


# ---- Values


def test_categories_without_end_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(schema, "MAX_DISTINCT", 300)
    n = 40_000
    words = [f"w{i % 2}" if i % 50 else f"w{i}" for i in range(n)]  # 800 that are rare
    for name, target in (("word", "y"), ("y", "word")):
        table = open_source(
            {"x": [i % 7 for i in range(n)], name: words, target: [i % 2 for i in range(n)]}
        )
        sentence = refused(lambda t=table: edgeforest.train_source(t, "y", n_trees=1), SourceError)
        assert "has more than 300 distinct values" in sentence


def test_values_of_a_database_that_take_gigabytes_are_refused(tmp_path):
    path = tmp_path / "house.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x, photo)")
        connection.executemany("INSERT INTO t VALUES (?, zeroblob(2000000))", [(1,), (2,)])
        connection.execute("CREATE VIEW v AS SELECT x, zeroblob(900000000) AS z FROM t")
    connection.close()
    words = "a value or row has more than 1 MB; read other columns"
    assert words in refused(lambda: open_source(path, table_or_query="v"), SourceError)
    with open_source(path, table_or_query="t") as source:
        assert words in refused(lambda: source.read([0]), SourceError)
    with open_source(path, table_or_query="SELECT x, length(photo) AS n FROM t") as source:
        assert source.read([0, 1]) == [[1, 2], [2_000_000, 2_000_000]]


def test_an_array_of_texts_that_take_gigabytes_is_refused(tmp_path):
    path = tmp_path / "log.npy"
    np.save(path, np.zeros(1, dtype=[("a", "f4"), ("b", "U10")]))
    data = path.read_bytes().replace(b"<U10'", b"<U999999999'", 1)
    size = int.from_bytes(data[8:10], "little") + len("999999999") - 2
    path.write_bytes(data[:8] + size.to_bytes(2, "little") + data[10:])
    os.truncate(path, 10 + size + 4 + 4 * 999999999)  # a hole
    assert "holds texts of more than 1 MB" in refused(lambda: open_source(path), SourceError)


def test_a_number_of_many_digits_is_cut_in_sentences(tmp_path):
    path = put(tmp_path, "x,y\n" + "1" * 5000 + ",0\n2,1\n3,0\n")
    sentence = refused(lambda: edgeforest.train_source(path, "y"), ValueError)
    assert "numbers must be within 3.4e38" in sentence


# ---- Words


def test_words_of_names():
    assert names.visible("plain äöü 温度 🌡") == "plain äöü 温度 🌡"
    for (
        bad
    ) in "\x00\x07\x1b\x7f\x85\x9b\u061c\u200e\u200f\u202a\u202e\u2028\u2029\u2066\u2069\ud800":
        assert names.visible(f"a{bad}b") == f"a{ascii(bad)[1:-1]}b"
        assert names.visible(f"a{bad}b").isprintable()
    assert names.visible("a\tb\n", keep="\n") == "a\\tb\n"
    assert names.short("x" * 61) == "x" * 57 + "..."
    assert names.short(math.inf) == "inf"
    assert names.quoted("x" * 61) == repr("x" * 57 + "...")
    assert names.quoted(3) == "3"
    assert names.listed("abc", 2) == "a, b and 1 more"


# ---- What is meant, and what cannot be


def log_of(folder, rows=300):
    lines = [
        f"u{i},{i},{i * 7 % 30}.5,{1_700_000_000 + 60 * i},m{i % 150},{'on' if i % 2 else 'off'}\n"
        for i in range(rows)
    ]
    return put(folder, "id,row,temp,time,many,y\n" + "".join(lines))


def told(capsys, *arguments, code=0):
    assert cli.main([str(argument) for argument in arguments]) == code
    out, err = capsys.readouterr()
    return " ".join((out + err).split())


def test_numbers_are_learned_with_mse_and_classes_are_not(tmp_path, capsys):
    path = log_of(tmp_path)
    words = "must be numbers, but line 2 of"
    remedy = "use --task classification, without --criterion mse"
    for more in ([], ["--checkpoint", tmp_path / "model.json"]):
        said = told(capsys, "train", path, "--target", "y", "--criterion", "mse", *more, code=2)
        assert words in said
        assert remedy in said
    sentence = refused(lambda: edgeforest.train_source(path, "y", criterion="mse"))
    assert "use task=classification, without criterion=mse" in sentence
    for engine in ENGINES:
        labels = [1.0, 2.0, "on", 3.0] * 9
        sentence = refused(
            lambda e=engine, y=labels: edgeforest.train([[1]] * 36, y, criterion="mse", engine=e),
            TypeError,
        )
        assert sentence == (
            "row 2 of target must be a number, got 'on'; criterion=\"mse\" is for numbers, use "
            'criterion="gini" to learn classes'
        )


def test_a_target_with_a_different_value_in_each_row(tmp_path, capsys):
    path = log_of(tmp_path)
    for more in ([], ["--checkpoint", tmp_path / "model.json"]):
        said = told(capsys, "train", path, "--target", "id", *more, code=2)
        assert "the target 'id' of" in said
        assert "has a different value in each of" in said
    said = told(capsys, "train", path, "--target", "row", "--task", "classification", code=2)
    assert "or use --task regression if it is a quantity" in said
    assert "as an id has" in refused(lambda: edgeforest.train_source(path, "id"))
    said = told(capsys, "train", path, "--target", "row", "--trees", 1)
    assert "it numbers the rows: is 'row' the column you meant?" in said
    assert "you meant" not in told(capsys, "train", path, "--target", "temp", "--trees", 1)
    few = put(tmp_path, "x,y\n" + "".join(f"{i},c{i}\n" for i in range(20)), "few.csv")
    assert "c19" in edgeforest.train_source(few, "y", n_trees=1).classes, "a toy may be one"


def test_a_target_with_hundreds_of_classes_is_doubted(tmp_path, capsys):
    path = log_of(tmp_path)
    for more in ([], ["--checkpoint", tmp_path / "model.json"]):
        said = told(capsys, "train", path, "--target", "many", "--trees", 1, *more)
        assert "rows for each: is 'many' the column you meant?" in said
        assert "you meant" not in told(capsys, "train", path, "--target", "y", "--trees", 1)


def test_dates_that_are_numbers(tmp_path, capsys):
    path = log_of(tmp_path)
    said = told(capsys, "train", path, "--target", "y", "--dates", "temp", code=2)
    assert "--dates names column 'temp', but 0.5 is not a date" in said
    for more in ([], ["--checkpoint", tmp_path / "model.json"]):
        said = told(
            capsys, "train", path, "--target", "y", "--dates", "time,time.hour", "--trees", 1, *more
        )
        assert "note the numbers of column 'time' are taken as seconds since 1970 (UTC)" in said
    late = put(tmp_path, "t,y\n" + "".join(f"{17 * 10**11 + i},{i % 2}\n" for i in range(60)), "l")
    assert "is not a date" in refused(
        lambda: edgeforest.open_source(late, dates=["t"]).read(range(60)), SourceError
    )
    said = told(capsys, "train", path, "--target", "y", "--trees", 1)
    assert "seconds since" not in said


def test_a_file_given_twice(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path)
    other = log_of(tmp_path).rename(tmp_path / "other.csv")
    log_of(tmp_path)
    os.symlink("log.csv", "link.csv")
    for pair in (
        ("log.csv", "log.csv"),
        ("log.csv", "./log.csv"),
        ("l*.csv",),
        ("l?g.csv", "link.csv"),
    ):
        said = told(capsys, "train", *pair, "--target", "y", code=2)
        assert "given twice" in said
        assert "its rows would count double; give it once" in said
    assert "given twice" in refused(lambda: open_source(["log.csv", "log.csv"]), SourceError)
    assert "600 rows" in told(
        capsys, "train", "log.csv", other, "--target", "y", "--trees", 1, "--drop", "id"
    )
    told(capsys, "train", "log.csv", "--target", "y", "--trees", 1, "--out", "model.json")
    said = told(capsys, "merge", "model.json", "./model.json", "--out", "both.json")
    assert "./model.json is given twice, so its trees count double; meant?" in said


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MB", 64_000_000),
        ("64M", 64_000_000),
        ("64m", 64_000_000),
        ("64mb", 64_000_000),
        ("64 MB", 64_000_000),
        ("64MiB", 64 << 20),
        ("64mib", 64 << 20),
        ("1.5GB", 1_500_000_000),
        ("0.5GiB", 1 << 29),
        ("512kB", 512_000),
        ("512KB", 512_000),
        ("512KiB", 512 << 10),
        ("123", 123),
        ("123B", 123),
        ("5e6", 5_000_000),
    ],
)
def test_sizes(text, size):
    assert arguments.bytes_of(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "64TB", "64XB", "-1", "0", "0.3kiB", "1,5GB", "12iB", "1.5", "∞"]
)
def test_what_is_not_a_size(tmp_path, capsys, text):
    said = told(capsys, "train", "x.csv", "--target", "y", f"--bytes={text}", code=2)
    assert "--bytes must be" in said
    assert repr(text) in said
