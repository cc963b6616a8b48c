"""The texts of options: amounts, sizes, shares, and what is wrong with them."""

import re

import pytest
from command_line import refused

from edgeforest.cli import arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("500k", 500_000),
        ("2M", 2_000_000),
        ("1.5M", 1_500_000),
        (".5M", 500_000),
        ("3G", 3_000_000_000),
        ("2e6", 2_000_000),
        ("4.35k", 4350),  # as floats, 4.35 * 1000 is not whole
    ],
)
def test_amounts_take_suffixes(text, value):
    assert arguments.amount(text) == value


@pytest.mark.parametrize("text", ["", "M", "2m", "-1", "0", "0.5", "1.0005k", "lots", "1,5M", "²"])
def test_bad_amounts_are_refused(text, capsys):
    said = refused(capsys, "train", "log.csv", "--target", "y", f"--budget={text}")
    assert said.startswith("--budget must be")
    assert f"got {text!r}" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("train log.csv --target y --trees 0", "--trees must be a whole number from 1 to 4,096"),
        ("train log.csv --target y --trees ten", "got 'ten'"),
        ("train log.csv --target y --seed -1", "--seed must be a whole number from 0"),
        (
            "train log.csv --target y --seconds 5m",
            "--seconds must be a time such as 30s, 10min or 2h, got '5m'",
        ),
        ("train log.csv --target y --seconds 0", "--seconds must be at least 0.001"),
        ("train log.csv --target y --seconds 0.00001", "--seconds must be at least 0.001, got"),
        ("train log.csv --target y --seconds nan", "--seconds must be a time such as"),
        ("train log.csv --target y --seconds inf", "--seconds must be a time such as"),
        ("train log.csv --target y --seconds -1", "--seconds"),
        ("train log.csv --target y --bytes 0", "--bytes must be whole bytes, at least 1"),
        ("train log.csv --target y --bytes nan", "--bytes must be a size such as"),
        ("train log.csv --target y --budget 0", "--budget must be a whole number of at least 1"),
        ("train log.csv --target y --budget inf", "--budget must be a number such as"),
        ("train log.csv --target y --kind wood", "'wood'"),
        ("train log.csv --target y --tre 5", "--tre"),
        ("train log.csv --target y --engine fast", "'fast'"),
        ("train log.csv --target y --jobs 0", "--jobs must be a whole number from 1 to 1,024, got"),
        ("train log.csv --target y --jobs -2", "got '-2' (-1 stands for every core)"),
        ("train log.csv --target y --jobs two", "got 'two'"),
        ("merge --out c.json", "model"),
        ("merge a.json b.json", "--out"),
        ("merge a.json --out c.json --weights 1,-2", "--weights must be numbers such as 1,2.5"),
        ("merge a.json --out c.json --weights 1,nan", "got '1,nan'"),
        ("merge a.json --out c.json --weights 1;2", "got '1;2'"),
        ("merge a.json --out c.json --max-trees 0", "--max-trees must be a whole number of at"),
        ("merge a.json --out c.json --max-bytes ten", "--max-bytes must be a size such as 64MB"),
        ("export model.json", "out"),
        ("export model.json m.h --rows int8", "'int8'"),
        ("export model.json m.json --shrink --levels 0", "--levels must be a whole number from 1"),
        ("grow", "'grow'"),
    ],
)
def test_bad_options_are_one_sentence(arguments, expected, capsys):
    said = refused(capsys, *arguments.split())
    assert expected in said
    assert re.search(r"; see edgeforest( train| merge| export)? --help$", said)
