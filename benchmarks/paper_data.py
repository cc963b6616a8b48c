"""The paper's other sets of data, each from its file if that is there, otherwise generated.

    covtype.data.gz                      Covertype, as UCI and scikit-learn have it
    aps+failure+at+scania+trucks.zip     APS, as UCI has it (or the file in it,
                                         aps_failure_training_set.csv)
    sgemm+gpu+kernel+performance.zip     SGEMM, as UCI has it (or the file in it, sgemm_product.csv)

Put them into the folder that `--data` or $EDGEFOREST_DATA names; they come from
https://archive.ics.uci.edu/static/public/ 31/covertype.zip, 421/ and 440/. The SHA-256 of the first is
the one that scikit-learn's `fetch_covtype` asks for, that of the second is cited by several public
projects. None is known for the third, nor for unpacked files: there the number of rows and columns, the
classes and the values of the settings are checked.

What takes their place is generated, has the same shape, and about the difficulty that the paper's scores
show. It is named so, and says nothing about the paper's data.

The paper's published code prepares two sets otherwise than its text says; this is done here, too.

- SGEMM gets 50 columns of noise and one that numbers the rows: 65 instead of 14.
- The Beijing air (`air_as_coded`) has 141 columns: 12 numbers, one column a station, and one for each wind speed.
  What is missing, the target too, is taken from the next row.
"""

import csv
import gzip
import hashlib
import io
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.data import MISSING, Table, air, features, find, mnist, numbers, parted, read

COVERTYPE = "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"
APS = "5504d0402f54faaf97ac0ca085a621645763f5cfea2eb29c592b057d43d4db89"
COVERS = [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]  # rows of each class
SETTINGS = {  # the values that each setting of SGEMM has
    "MWG NWG": {16, 32, 64, 128},
    "KWG": {16, 32},
    "MDIMC NDIMC MDIMA NDIMB": {8, 16, 32},
    "KWI": {2, 8},
    "VWM VWN": {1, 2, 4, 8},
    "STRM STRN SA SB": {0, 1},
}
NOISE = 50  # columns that the paper's code adds to SGEMM
AIR = [
    "year",
    "month",
    "day",
    "hour",
    "PM2.5",
    "PM10",
    "SO2",
    "NO2",
    "TEMP",
    "PRES",
    "DEWP",
    "RAIN",
]


def expect(path: Path, what: str, found: object, wanted: object) -> None:
    """Stop unless a file has what it should have."""
    if found != wanted:
        sys.exit(f"{path.name} must have {what} {wanted}, got {found}; fetch it again")


def of_checksum(path: Path, wanted: str) -> bytes:
    """The bytes of a file whose SHA-256 is known."""
    found = path.read_bytes()
    expect(path, "the SHA-256", hashlib.sha256(found).hexdigest(), wanted)
    return found


def unpacked(path: Path, name: str, content: bytes) -> io.StringIO:
    """The text of one file of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if name not in archive.namelist():
            sys.exit(f"{path.name} must hold {name}, got {archive.namelist()}; fetch it again")
        return io.StringIO(archive.read(name).decode())


def four_times(given: str | None) -> Table:
    """240,000 rows drawn from MNIST: the published code of Table 1 trains on these."""
    table = mnist(given)
    rows = np.random.default_rng(0).integers(len(table.y), size=4 * len(table.y))
    name = f"{table.about}, {len(rows):,} rows drawn from it"
    return Table(name, False, table.X[rows], table.y[rows], table.X_test, table.y_test)


# ---- Covertype --------------------------------------------------------------------------------


def covertype(given: str | None = None) -> Table:
    """The cover of a forest: 581,012 x 54, 7 classes of very different size."""
    path = find("covtype.data.gz", given)
    if path:
        text = gzip.decompress(of_checksum(path, COVERTYPE)).decode()
        values = np.loadtxt(io.StringIO(text), np.float32, delimiter=",")
        y = values[:, -1].astype(int) - 1
        expect(path, "classes of these sizes:", np.bincount(y).tolist(), COVERS)
        return parted("Covertype", False, values[:, :-1], y, 0.9)
    from sklearn.datasets import make_classification

    shares = np.array(COVERS) / sum(COVERS)
    X, y = make_classification(
        sum(COVERS),
        54,
        n_informative=10,
        n_redundant=0,
        n_classes=7,
        weights=shares,
        class_sep=0.6,
        flip_y=0.02,
        shuffle=False,
        random_state=0,
    )
    X = X.astype(np.float32)
    X[:, 10:] = X[:, 10:] > 1.5  # 44 of its features are 0 or 1, mostly 0
    return parted("generated, for Covertype", False, X, y, 0.9)


# ---- APS --------------------------------------------------------------------------------------


def aps(given: str | None = None) -> Table:
    """Failures of trucks: 60,000 x 170, one row in 60 has one, many values missing."""
    lines = None
    archive = find("aps+failure+at+scania+trucks.zip", given)
    path = archive or find("aps_failure_training_set.csv", given)
    if archive:
        content = of_checksum(archive, APS)
        names, lines = read(unpacked(archive, "aps_failure_training_set.csv", content), "class")
    elif path:
        with path.open(newline="") as stream:
            names, lines = read(stream, "class")
    if path and lines:
        labels = [line[names.index("class")] for line in lines]
        expect(path, "classes", dict(Counter(labels)), {"neg": 59_000, "pos": 1_000})
        expect(path, "columns:", len(names), 171)
        y = np.array([label == "pos" for label in labels]).astype(int)
        return parted("APS", False, features(names, lines, {"class"}), y, 0.9)
    from sklearn.datasets import make_classification

    X, y = make_classification(
        60_000,
        170,
        n_informative=15,
        n_redundant=60,
        n_clusters_per_class=1,
        weights=[1 - 1 / 60],
        class_sep=1.0,
        flip_y=0.002,
        random_state=0,
    )
    X = X.astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < 0.083] = np.nan
    return parted("generated, for APS", False, X, y, 0.9)


# ---- SGEMM ------------------------------------------------------------------------------------


def sgemm(given: str | None = None) -> Table:
    """Milliseconds of a matrix product on a GPU: 241,600 x 14, settings of few values each."""
    archive = find("sgemm+gpu+kernel+performance.zip", given)
    path = archive or find("sgemm_product.csv", given)
    rng = np.random.default_rng(0)
    if path:
        if archive:
            text = unpacked(archive, "sgemm_product.csv", archive.read_bytes())
            names, lines = read(text, "MWG")
        else:
            with path.open(newline="") as stream:
                names, lines = read(stream, "MWG")
        expect(path, "rows and columns:", (len(lines), len(names)), (241_600, 18))
        for settings, values in SETTINGS.items():
            for name in settings.split():
                found = {int(line[names.index(name)]) for line in lines}
                expect(path, f"in {name} the values", found, values)
        runs = [name for name in names if name.startswith("Run")]
        y = np.mean([numbers([line[names.index(r)] for line in lines]) for r in runs], axis=0)
        about, X = "SGEMM", features(names, lines, set(runs))
    else:
        values = [rng.permutation(sorted(v)) for k, v in SETTINGS.items() for _ in k.split()]
        X = np.column_stack([rng.choice(v, 241_600) for v in values]).astype(np.float32)
        level = np.column_stack([np.log2(X[:, :8]), np.log2(X[:, 8:10]), X[:, 10:]])
        effect = 0.55 * (level[:, 0] + level[:, 1]) - 0.6 * (level[:, 3] + level[:, 4])
        effect += 0.25 * np.abs(level[:, 5] - level[:, 6]) * level[:, 12]
        effect += 0.15 * level[:, 8] * level[:, 10] + rng.normal(0, 0.2, len(X))
        about, y = "generated, for SGEMM", 30.7 * np.exp(effect)
    row = np.arange(len(y), dtype=np.float32)
    more = rng.normal(size=(len(y), NOISE)).astype(np.float32)
    return parted(about, True, np.column_stack([row, X, more]), y, 0.9)


# ---- The Beijing air, as the paper's code prepares it -----------------------------------------


def filled(values: list[str]) -> list[str]:
    """What is missing is taken from the next row that has it, at the end from the one before."""
    found = list(values)
    for order in (range(len(found) - 2, -1, -1), range(1, len(found))):
        step = -order.step
        for i in order:
            if found[i] in MISSING:
                found[i] = found[i + step]
    return found


def as_bytes(values: np.ndarray) -> np.ndarray:
    """Numbers on 256 equally spaced levels, so that 100 trees can read their patches quickly."""
    low = values.min()
    return np.rint((values - low) * (255 / max(1e-9, values.max() - low))).astype(np.uint8)


def air_columns(columns: dict[str, list[str]]) -> Iterator[np.ndarray]:
    """One column for each station and each wind speed, then the numbers."""
    for name in ("station", "WSPM"):
        values = np.array(columns[name])
        for value in np.unique(values):
            yield (values == value).astype(np.uint8)
    for name in AIR:
        yield as_bytes(np.array(columns[name], np.float64))


@lru_cache(maxsize=1)
def air_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows in the order of the file; read once, since two tables are made of them."""
    with gzip.open(path, "rt", newline="") as stream:
        names, *lines = csv.reader(stream)
    wanted = [*AIR, "station", "WSPM", "O3"]
    columns = {name: filled([line[names.index(name)] for line in lines]) for name in wanted}
    X = np.column_stack(list(air_columns(columns)))
    return X, np.array(columns["O3"], np.float64)


def air_as_coded(given: str | None = None, in_order: bool = False) -> Table:
    """The Beijing air as the paper's code has it: ozone from 141 columns.

    A random tenth is for the test, or the last one if rows stay in the order of the file.
    """
    path = find("beijing_air_quality.csv.gz", given)
    if not path:
        return air(given, "O3", 0.9)
    X, y = air_of(path)
    about = f"Beijing air, O3, {X.shape[1]} columns"
    if in_order:
        cut = int(len(y) * 0.9)
        return Table(about, True, X[:cut], y[:cut], X[cut:], y[cut:])
    return parted(about, True, X, y, 0.9)
