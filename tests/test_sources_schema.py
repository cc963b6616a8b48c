"""What the columns of a log are found to be."""

import gzip

import pytest
from command_line import prepared, table

from edgeforest.sources import SourceError


@pytest.mark.parametrize(
    ("separator", "name"), [(",", "a;b;c;d"), (";", "a,b,c,d"), ("\t", "a;b;c,d,e")]
)
def test_separator_comes_from_the_header(separator, name, tmp_path):
    path = tmp_path / "log.csv"
    rows = [f'"{name}"', "d", "y"], ["1", "2", "u"], ["3", "4", "v"]
    path.write_text("\n".join(separator.join(row) for row in rows))
    data = prepared(path, "y")
    assert (data.names, data.rows) == ([name, "d"], [(1.0, 2.0), (3.0, 4.0)])


def test_decimal_commas_where_commas_do_not_separate(tmp_path):
    path = table(tmp_path, "a;y\n1,5;u\n-2,25;v\n")
    assert prepared(path, "y").rows == [(1.5,), (-2.25,)]


def test_byte_order_mark_gzip_blank_lines_and_quotes(tmp_path):
    text = '\ufeff"a","y"\r\n\r\n"1", "u, w"\r\n2,"v\n2"\r\n\r\n'.encode()
    for content in (text, gzip.compress(text)):
        data = prepared(table(tmp_path, content), "y")
        assert (data.names, data.rows, data.y) == (["a"], [(1.0,), (2.0,)], ["u, w", "v\n2"])


def test_missing_values_in_all_their_spellings(tmp_path):
    spellings = ["", " ", "NA", "N/A", "nan", "NaN", "null", "None", "?"]
    lines = "".join(f"{s},{s},{i % 2}\n" for i, s in enumerate(["1", "2", *spellings]))
    data = prepared(table(tmp_path, "a,b,y\n" + lines), "y", categorical=["b"])
    assert data.missing == {"a": 9, "b": 9}
    assert all(a != a and b is None for a, b in data.rows[2:])
    assert data.rows[:2] == [(1.0, 1), (2.0, 2)]


@pytest.mark.parametrize("header", ["a,y", '"",a,y'])
def test_an_index_without_a_name_is_left_out(header, tmp_path):
    path = table(tmp_path, header + '\n"1",5,u\n"2",6,v\n')
    data = prepared(path, "y")
    assert (data.names, data.rows, data.y) == (["a"], [(5.0,), (6.0,)], ["u", "v"])
    assert data.left_out == [("column 1", "the header does not name it")]


def test_timestamps_are_left_out_unless_asked_for(tmp_path):
    dates = [f"2024-05-{1 + i % 28:02d} 12:30:00" for i in range(40)]
    path = table(tmp_path, "t,a,y\n" + "".join(f"{d},{i},{i % 2}\n" for i, d in enumerate(dates)))
    assert prepared(path, "y").left_out == [("t", "text, 28 distinct dates")]
    assert prepared(path, "y", categorical=["t"]).categories == {"t": 28}


def test_text_that_is_all_different_is_left_out(tmp_path):
    path = table(tmp_path, "id,a,y\n" + "".join(f"id{i},{i},{i % 2}\n" for i in range(300)))
    assert prepared(path, "y").left_out == [("id", "text, 300 distinct values")]


def test_a_column_without_values_is_left_out(tmp_path):
    path = table(tmp_path, "a,b,y\n1,,u\n2,NA,v\n")
    assert prepared(path, "y").left_out == [("b", "no values")]


@pytest.mark.parametrize(
    ("values", "regression"),
    [
        (["on", "off"], False),
        (["1", "2", "on"] * 2 + ["off"] * 9, False),
        ([str(i % 20) for i in range(60)], False),
        ([str(i % 21) for i in range(60)], True),
        (["0.5", "1"], True),
        (["1.0", "2.0"], False),
    ],
)
def test_task_follows_the_target(values, regression, tmp_path):
    path = table(tmp_path, "a,y\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    data = prepared(path, "y")
    assert data.regression is regression
    assert prepared(path, "y", task="classification").regression is False
    if values == ["1.0", "2.0"]:
        assert repr(data.y) == "[1, 2]"


def test_errors_about_a_table_are_value_errors(tmp_path):
    with pytest.raises(SourceError):
        prepared(table(tmp_path, "a,y\n1,u\n"), "z")
    assert issubclass(SourceError, ValueError)
