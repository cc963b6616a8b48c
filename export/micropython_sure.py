"""How sure a forest is, in a MicroPython module: `predict_interval(row)` or `predict_set(row)`.

`edgeforest/sure.py` for the coverage that the module is made for. The squares of votes are summed up
in three parts that are small numbers on any board, so that predicting still allocates nothing.
"""

from __future__ import annotations

from edgeforest import sure
from edgeforest.forest import Forest

# Around the loop over the trees, and for the vote v of a leaf: v * v is h^2, h * v and v^2.
BEFORE = ["qa = qb = qc = 0"]
ADD = ["h = v >> 8", "v &= 255", "qa += h * h", "qb += h * v", "qc += v * v"]
AFTER = ["_squares[0] = qa", "_squares[1] = qb", "_squares[2] = qc"]
CONSTANTS = ["_squares = [0, 0, 0]"]

INTERVAL = '''\
def predict_interval(row):
    """The bounds between which the value lies in @COVERAGE of 100 cases."""
    predict_into(row, _out)
    total = _out[0]
    n = @TREES * ((_squares[0] << 16) + (_squares[1] << 9) + _squares[2]) - total * total
    root = 1
    while root * root < n:
        root += root
    while root * root > n:
        root = (root + n // root) // 2
    reach = (root + @FLOOR) * @NUMBER // @WIDTH
    return value(max(0, total - reach)), value(min(@MOST, total + reach))'''
SET = '''\
def predict_set(row):
    """The classes, surest first, of which the row has one in @COVERAGE of 100 cases."""
    best = predict_into(row, _out)
    least = @NUMBER * sum(_out)
    places = [k for k, v in enumerate(_out) if k == best or v * @SHARE >= least]
    places.sort(key=lambda k: (-_out[k], k))
    return [CLASSES[k] for k in places]'''


def in_python(forest: Forest, coverage: float) -> list[str]:
    """The function that says how sure the forest is."""
    values = {
        "COVERAGE": round(100 * coverage),
        "NUMBER": sure.number_for(forest, coverage),
        "TREES": len(forest),
        "FLOOR": (forest.calibration or [0])[0],
        "WIDTH": sure.WIDTH,
        "SHARE": sure.SHARE,
        "MOST": forest.scale * len(forest),
    }
    text = INTERVAL if forest.regression else SET
    for key, value in values.items():
        text = text.replace(f"@{key}", str(value))
    return ["\n", text]
