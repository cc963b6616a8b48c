"""The shape of what the user gave: rows, columns or one flat buffer, of any kind of sequence.

A board whose features are one buffer of bytes each does not load this file.
"""

from edgeforest.budget import between
from edgeforest.checks import check_steady
from edgeforest.forest import FEATURE, MASK, is_sequence

if 0:  # for type checkers: a board compiles nothing of it
    from edgeforest.host.types import *


def is_raw(X: "Any", by_column: "bool") -> "bool":
    """Whether X holds bytes, which are codes already."""
    return all(
        [
            isinstance(x, (bytes, bytearray)) or repr(getattr(x, "dtype", 0)) == "dtype('uint8')"
            for x in (X if by_column else [X])
        ]
    )


def shape(
    X: "Any", n_features: "int | None", by_column: "bool"
) -> "tuple[int, int, Callable[[int], Any]]":
    """Rows, features, and a function from a feature to its column of values."""
    if not is_sequence(X):
        raise TypeError(f"X must be a list of rows, got {X!r}")
    n = len(X)
    if n == 0:
        raise ValueError("no rows to train on; give at least one")
    if n_features is not None:
        m = between("n_features", n_features, 1, FEATURE)
        if n % m:
            raise ValueError(f"a flat buffer of {n} values does not hold rows of {m}")
        return n // m, m, lambda f: [X[i] for i in range(f, n, m)]
    table = hasattr(X, "dtype") and is_sequence(X[0])  # an array of NumPy or ulab
    what = "column" if by_column else "row"
    if not table:
        i = -1
        for i, line in enumerate(X):
            if not is_sequence(line):
                raise TypeError(
                    f"{what} {i} of X must be a list of values, got {line!r}; "
                    "for one flat buffer of rows give n_features"
                )
            if len(line) != len(X[0]):
                raise ValueError(f"{what} {i} has {len(line)} values, {what} 0 has {len(X[0])}")
        check_steady(i + 1 == n, "X", n)
    m = len(X[0])
    if by_column:
        n, m = m, n
    if not 1 <= m <= FEATURE or not 1 <= n <= MASK:
        raise ValueError(f"X must have 1 to {MASK} rows of 1 to {FEATURE} values, got {n} of {m}")
    if by_column:
        return n, m, lambda f: X[f]
    if table:
        return n, m, lambda f: X[:, f]
    return n, m, lambda f: [row[f] for row in X]
