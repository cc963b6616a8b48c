"""Text that is read in C: the same cells, marks and sentences as in Python, whatever the file holds.

Each case runs twice, the second time without `in_c.text`. test_kernel_c.py runs this file again
under the sanitizers.
"""

import gzip
import math
import os
import random
import struct
from array import array

import pytest
from runtimes import needs

import edgeforest
from edgeforest.sources import CSV, JSONLines, SourceError, Table, in_c
from edgeforest.sources.cells import MAX_NUMBER, parse_number
from edgeforest.sources.line_index import LineIndex
from edgeforest.sources.records import Records
from edgeforest.sources.schema import look
from edgeforest.sources.text_file import TextFile

pytestmark = needs(in_c.text is not None, "the C kernel is not there")
CASES = int(os.environ.get("EDGEFOREST_CASES", "300"))  # random ones of each kind; raise it at will

PLAIN = b"t,room,y\n" + b"".join(
    b"%d.5,%s,%d\n" % (i % 9, b"hall attic".split()[i % 2], i % 3) for i in range(60)
)


def with_cell(cell):
    """A plain table, with this cell in its tenth row."""
    lines = PLAIN.split(b"\n")
    lines[10] = cell + b"," + lines[10].partition(b",")[2]
    return b"\n".join(lines)


def with_line(line):
    """A plain table, with this line after its tenth row."""
    lines = PLAIN.split(b"\n")
    return b"\n".join([*lines[:11], line, *lines[11:]])


CELLS = [
    *(b"", b" ", b"\t", b"NA", b"N/A", b"nan", b"NaN", b"Nan", b"-nan", b"+nan", b"null", b"None"),
    *(b"?", b"??", b"inf", b"-inf", b"Infinity", b"1e400", b"-1e400", b"1e39", b"1e-400", b"1e-46"),
    *(b"3.4028235e38", b"3.4028234663852886e38", b"340282346638528859811704183484516925440"),
    *(b"3.4028236e38", b"9" * 38, b"9" * 39, b"9" * 400, b"9" * 401, b"0." + b"0" * 500 + b"1"),
    *(b"0x10", b"1_000", b"1e5", b"1E+05", b"1e-5", b"1e", b"1e+", b"e5", b"1e0000001", b"1.5.2"),
    *(b"+1", b"-1", b"--1", b"+-1", b"1.", b".5", b".", b"-.5e2", b"-", b"+", b"-0", b"00012"),
    *(
        b"1,5",
        b"1 5",
        b" 1.5 ",
        b"\t1.5",
        b"1.5\x0b",
        b"1.5\x1c",
        b"\x1f1.5",
        b"\x0c",
        b"1d5",
        b"1f",
    ),
    *(text.encode() for text in ("\uff11\uff12", "\u0663", "1\u00a0", "\u2003NA", "\u22125")),
    *(
        "1\u0085".encode(),
        "é".encode(),
        b"\xe9",
        b"\xc3",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\0",
        b"1\0",
    ),
    *(
        b'"1.5"',
        b'" 1.5 "',
        b'"1.5" ',
        b' "1.5"',
        b'\t"1.5"',
        b'"1""5"',
        b'""',
        b'"',
        b'1"5',
        b'"a"b',
    ),
    *(b'"NA"', b'"1,5"', b'"1\n5"', b'"1\r\n5"', b"'1.5'", b'"""a"""', b'"' + b"x" * 200, b"true"),
    *(
        b"1.5,",
        b",1.5",
        b"1.5,2",
        b"x" * 131_072,
        b"x" * 131_073,
        b"1" + b" " * 140_000,
        b"#1",
        b"1#",
    ),
    *(
        b"2147483648",
        b"9007199254740993",
        b"0.1000000000000000055511151231257827021181583404541015625",
    ),
    *(
        b"16777217",
        b"1.00000005960464477539062",
        b"1.00000005960464477539063",
        b"7" * 19,
        b"7" * 20,
    ),
]
LINES = [
    *(
        b"",
        b" ",
        b"\t",
        b",",
        b",,",
        b",,,",
        b"1,2",
        b"1,2,3,4",
        b"# a note",
        b"x",
        b"\r",
        b'"',
        b'"a',
    ),
    *(
        b'1,"a\nb",2',
        b'1,"a\n\nb",2',
        b'"1","hall","2"',
        b"1;hall;2",
        b"\x0b",
        b"\0\0\0",
        b"1,a,2\r3,b,1",
    ),
    *(
        b"1,hall,2\r",
        b"1,hall,2\r\r",
        b'"a""b",c,1',
        b'1,hall "big",2',
        b'1, "hall" ,2',
        b"x" * 70_000,
    ),
]
FILES = {
    "empty": b"",
    "a line end": b"\n",
    "a header": b"a,b,y\n",
    "one row": b"1,2,3\n",
    "no line end": PLAIN[:-1],
    "half a row": PLAIN[:-4],
    "half a letter": PLAIN[:-1] + "\n1,é".encode()[:-1],
    "an open quote": PLAIN + b'1,"hall,2\n3,x,1\n',
    "a byte order mark": b"\xef\xbb\xbf" + PLAIN,
    "CRLF": PLAIN.replace(b"\n", b"\r\n"),
    "CR": PLAIN.replace(b"\n", b"\r"),
    "mixed ends": PLAIN.replace(b"8.5,", b"8.5\r,").replace(b"1\n", b"1\r\n"),
    "blank lines": PLAIN.replace(b"\n", b"\n\n"),
    "spaces at line starts": PLAIN.replace(b"\n", b"\n  "),
    "trailing commas": PLAIN.replace(b"\n", b",\n"),
    "semicolons": PLAIN.replace(b",", b";"),
    "tabs": PLAIN.replace(b",", b"\t"),
    "bars": PLAIN.replace(b",", b"|"),
    "spaces": PLAIN.replace(b",", b"  "),
    "decimal commas": PLAIN.replace(b",", b";").replace(b".", b","),
    "quoted": b"".join(b'"' + line.replace(b",", b'","') + b'"\n' for line in PLAIN.split()),
    "quoted decimal commas": PLAIN.replace(b".5,", b';"x;y";').replace(b",", b";"),
    "spaces around": PLAIN.replace(b",", b" , "),
    "latin-1": PLAIN.replace(b"attic", b"B\xfcro"),
    "utf-8": PLAIN.replace(b"attic", "Büro".encode()),
    "utf-16": PLAIN.decode().encode("utf-16"),
    "gzip": gzip.compress(PLAIN),
    "cut gzip": gzip.compress(PLAIN)[:-20],
    "NULs at the end": PLAIN + b"\0" * 300,
    "bytes": random.Random(0).randbytes(3000),
    "numbers alone": b"".join(b"%d,%d\n" % (i, i * i % 7) for i in range(90)),
    "one column": b"y\n" + b"1\n2\n" * 30,
    "R's row names": b"a,y\n" + b"".join(b'"%d",%d,%d\n' % (i, i % 5, i % 2) for i in range(50)),
    "text in a number": PLAIN.replace(b"7.5", b"error"),
    "text in the target": PLAIN.replace(b",0\n", b",off\n"),
    "all missing": b"a,y\n" + b"NA,1\n,2\n" * 30,
    "targets missing": PLAIN.replace(b",2\n", b",\n"),
    **{f"cell {cell[:30]!r} {len(cell)}": with_cell(cell) for cell in CELLS},
    **{f"line {line[:30]!r} {len(line)}": with_line(line) for line in LINES},
}


def outcome(work):
    """What a function returns, or the sentence that it fails with."""
    try:
        return work()
    except SourceError as error:
        return f"SourceError: {error}"


def twice(monkeypatch, work):
    """The outcome with C, and the one without."""
    fast = outcome(work)
    with monkeypatch.context() as patch:
        patch.setattr(in_c, "text", None)
        return fast, outcome(work)


def cells_of(path, **options):
    """All that reading a file gives."""
    with CSV(path, **options) as log:
        names, n = log.names, len(log)
        some = log.read(range(0, n, 3))
        return names, n, log.read(range(n)), some, log.complaints, log.bad, log.decimal_comma


def values_of(path, kinds, **options):
    """The values of a file as a training takes them: numbers of typed columns, text of others."""
    with CSV(path, **options) as log:
        letters = [kinds[f % len(kinds)] for f in range(len(log.names))]
        found = log.read_as(range(len(log)), "".join(letters))
        return [
            numbers(column, kind, log.decimal_comma) if kind in "fd" else list(column)
            for column, kind in zip(found, letters, strict=True)
            if kind != "-"
        ]


def numbers(column, kind, comma):
    """A column as bytes of numbers if all of it are, as Python reads them; else as it is."""
    if isinstance(column, array):
        assert column.typecode == kind
        return column.tobytes()
    values = [math.nan if v is None else parse_number(v, comma) for v in column]
    if None in values or any(abs(v) > MAX_NUMBER for v in values):
        return column
    return array(kind, values).tobytes()


@pytest.mark.parametrize("what", FILES)
def test_any_file_is_read_in_c_as_in_python(what, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_bytes(FILES[what])
    for options in ({"max_bad": 99}, {}, {"encoding": "latin-1", "quote": None, "comment": "#"}):
        fast, slow = twice(monkeypatch, lambda o=options: cells_of(path, **o))
        assert fast == slow
    for kinds in ("ftd", "-df"):
        fast, slow = twice(monkeypatch, lambda k=kinds: values_of(path, k, max_bad=99))
        assert fast == slow


@pytest.mark.parametrize("what", FILES)
def test_any_file_gives_the_same_model_or_the_same_sentence(what, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_bytes(FILES[what])

    def train():
        with edgeforest.open_source(path, max_bad=20) as log:
            forest = edgeforest.train_source(log, log.names[-1], n_trees=2, max_depth=3)
            return forest.to_json(), log.complaints

    fast, slow = twice(monkeypatch, train)
    assert fast == slow


class Counting:
    """`in_c.text`, with a count of the texts that were read in C."""

    def __init__(self, text):
        self.quotes, self.marks = text.quotes, text.marks
        self._cells = text.cells
        self.read = self.left = 0

    def cells(self, *given):
        found = self._cells(*given)
        self.read += found is not None
        self.left += found is None
        return found


USUAL = ["a byte order mark", "CRLF", "semicolons", "tabs", "decimal commas", "quoted", "utf-8"]
USUAL += [
    "spaces around",
    "gzip",
    "targets missing",
    "blank lines",
    "cell b'NA' 2",
    "cell b'1e-46' 5",
]


@pytest.mark.parametrize("what", USUAL)
def test_the_usual_files_are_read_in_c(what, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_bytes(FILES[what])
    counting = Counting(in_c.text)
    monkeypatch.setattr(in_c, "text", counting)
    with CSV(path) as log:
        n = len(log)
        columns = log.read_as(range(n), "ftd")
    assert [type(column) for column in columns] == [array, list, array]
    assert (counting.read, counting.left) == (1, 0)
    assert [len(column) for column in columns] == [n] * 3


# ---- Random ones


def random_table(r):
    """A table of odd cells with odd ends of lines, a few of its bytes replaced."""
    separator = r.choice([b",", b";", b"\t"])
    end = r.choice([b"\n", b"\r\n", b"\n", b"\r"])
    pool = [b"1", b"2.5", b"-3e2", b"17", b"a", b"bb", b'"a b"', b'"7"', b" 8 ", b""]
    pool += [cell for cell in r.sample(CELLS, 3) if len(cell) < 99]
    m = r.randrange(1, 5)
    lines = [separator.join(r.choice(pool) for _ in range(m)) for _ in range(r.randrange(1, 40))]
    if r.random() < 0.3:
        lines.insert(r.randrange(len(lines) + 1), r.choice([x for x in LINES if len(x) < 99]))
    text = bytearray(end.join(lines) + r.choice([end, b""]))
    for _ in range(r.choice([0, 0, 1, 2])):
        text[r.randrange(len(text) + 1) :][:1] = b""
        at = r.randrange(len(text) + 1)
        text[at : at + 1] = r.choice([b'"', separator, b"\n", b"\r", b" ", b"\0", b"\xe9", b"#"])
    return bytes(text)


def test_random_tables_are_read_in_c_as_in_python(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    r = random.Random(1)
    read = 0
    for case in range(CASES):
        text = random_table(r)
        path.write_bytes(text)
        kinds = "".join(r.choice("ftd-") for _ in range(4))
        fast, slow = twice(monkeypatch, lambda: cells_of(path, max_bad=99))
        assert fast == slow, (case, text)
        fast, slow = twice(monkeypatch, lambda k=kinds: values_of(path, k, max_bad=99))
        assert fast == slow, (case, text)
        read += not isinstance(fast, str)
    assert read > CASES // 2


def test_numbers_are_those_that_python_reads():
    r = random.Random(2)
    texts = [r.choice(["", "-", "+"]) + spelled(r) for _ in range(40 * CASES)]
    text = "\n".join(texts).encode()
    signs = (ord(","), 0, 0, 1000)
    wide = [float(t) for t in texts]
    for kind in "df":
        (found,) = in_c.text.cells(text, len(texts), signs, kind.encode(), b"")
        assert isinstance(found, bytes)
        assert array(kind, found).tolist() == array(kind, wide).tolist()


def spelled(r):
    """A number as text: short, as Python writes it, or right between two numbers of float32."""
    way = r.randrange(6)
    if way == 0:
        return str(r.randrange(10 ** r.randrange(1, 20)))
    if way == 1:
        return f"{r.randrange(10**6)}.{r.randrange(10 ** r.randrange(1, 25))}"
    if way == 2:
        return repr(abs(r.gauss(0, 1)) * 10.0 ** r.randrange(-30, 30))
    if way == 3:
        return f"{r.random():.{r.randrange(30)}f}"
    if way == 4:
        return f"{r.randrange(10**17)}e{r.randrange(-40, 20)}"
    low = struct.unpack("f", struct.pack("I", r.randrange(1 << 23, 0x7F000000)))[0]
    high = struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", low))[0] + 1))[0]
    middle = (low + high) / 2  # which float64 holds
    return f"{middle:.{r.choice([15, 16, 17, 18, 25, 60])}e}"


@pytest.mark.parametrize("comma", [False, True])
def test_text_becomes_numbers_in_c_as_in_python(comma, monkeypatch):
    log = Table({"t": ["1", "2.5", "3"] * 9, "y": ["0.5", "1", "7.25"] * 9})
    log.texts, log.decimal_comma = True, comma
    schema = look(log, "y", None)
    assert schema.regression
    odd = [cell.decode("latin-1") for cell in CELLS if len(cell) < 999]
    odd += [" ", "a\x01b", "1\n2", "\n", "\ud800", "nan", "NaN", "1,25", 7, 2.5, None, math.nan]

    def columns():
        schema.odd, schema.unlabelled = {}, 0
        (features,), labels = schema.columns(block)
        return features.tobytes(), labels.tobytes(), schema.odd, schema.unlabelled

    r = random.Random(5)
    for value in odd:
        block = [[r.choice(["12", "-0.5", "1e3", None]) for _ in range(12)] for _ in range(2)]
        for column in block:
            column[r.randrange(12)] = value
        fast, slow = twice(monkeypatch, columns)
        assert fast == slow, value


def test_quotes_are_found_in_c_as_in_python(monkeypatch):
    r = random.Random(3)
    kinds = [
        Records(quote=b'"', opens=opens, comment=comment, spaced=spaced)
        for opens, spaced in ((b",", True), (b",", False), (b" ", False))
        for comment in (b"", b"#")
    ]
    for _ in range(30 * CASES):
        text = bytes(r.choices(b'"""",,\n\r a#', k=r.randrange(30)))
        records = r.choice(kinds)
        fast, slow = twice(monkeypatch, lambda c=records, t=text: (c.split(t), c.mask(t)[1]))
        assert fast == slow, (text, records.options())


@pytest.mark.parametrize("kind", [CSV, JSONLines])
def test_marks_are_set_in_c_as_in_python(kind, tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    r = random.Random(4)
    odd = [b"", b" 1,2", b'1,"a\nb"', b'1,"a,""b"', b"# a note", b"1,2\r", b"1,2\r3,4", b"\t"]

    def marks():
        text = TextFile(str(path))
        text.open()
        quote = {"quote": b'"', "opens": b",", "spaced": True} if kind is CSV else {}
        index = LineIndex(text, Records(comment=comment, **quote), keep=False)
        text.close()
        return index.offsets, index.firsts, index.lines, index.count, index.unclosed

    for _ in range(CASES // 10):
        comment = r.choice([b"", b"#"])
        lines = [b"%d,%d" % (i, i * i) for i in range(r.randrange(1, 3000))]
        for _ in range(r.choice([0, 0, 1, 3])):
            lines.insert(r.randrange(len(lines) + 1), r.choice(odd))
        end = r.choice([b"\n", b"\n", b"\r\n", b"\r"])
        path.write_bytes(end.join(lines) + r.choice([end, b"", b'1,"', b"\n\n"]))
        fast, slow = twice(monkeypatch, marks)
        assert fast == slow
