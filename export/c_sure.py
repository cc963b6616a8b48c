"""How sure a forest is, in C: the interval of a regression, the set of a classification.

`edgeforest/sure.py` in whole numbers of 64 bits: the same bounds to the last bit, on any machine.
"""

from __future__ import annotations

from collections.abc import Callable

from edgeforest import sure
from edgeforest.forest import Forest

INTERVAL = """\
/* The bounds between which the value lies in @COVERAGE of 100 cases. */
static inline void @_interval(const @ROW *row, float *lower, float *upper)
{
    volatile float value; /* rounded to float32 after each step, on any machine */
    @_sum out[1];
    uint64_t n, bit, root = 0, reach, total;
    @_moments(row, out, &n);
    total = out[0];
    n = n * @TREES - total * total; /* below 2^48 */
    for (bit = (uint64_t)1 << 46; bit; bit >>= 2) {
        if (n >= root + bit) {
            n -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    reach = (root + @FLOORU) * @NUMBERU / @WIDTHU;
    value = (float)(uint32_t)(total > reach ? total - reach : 0) * @STEP;
    value = value + @LOW;
    *lower = value;
    reach = total + reach < @MOSTU ? total + reach : @MOSTU;
    value = (float)(uint32_t)reach * @STEP;
    value = value + @LOW;
    *upper = value;
}"""
SET = """\
/* Which classes the row may have: in[place] is 1 or 0; one of them is true in @COVERAGE of 100 cases.
   Returns how many. */
static inline int @_set(const @ROW *row, uint8_t *in)
{
    @_sum out[@VOTES];
    int k, best = 0, size = 0;
    uint64_t total = 0;
    @_votes(row, out);
    for (k = 0; k < @VOTES; k++) {
        total += out[k];
        if (out[k] > out[best]) best = k;
    }
    for (k = 0; k < @VOTES; k++) {
        in[k] = k == best || (uint64_t)out[k] * @SHAREU >= total * @NUMBERU;
        size += in[k];
    }
    return size;
}"""


def about(forest: Forest, name: str, row_type: str) -> list[str]:
    """The lines of the header's comment."""
    row = f"const {row_type} *row"
    if forest.regression:
        return [
            f"void {name}_interval({row}, float *lower, float *upper)  between them, most often"
        ]
    return [f"int {name}_set({row}, uint8_t *in)  the classes that it may be, most often"]


def in_c(
    forest: Forest, name: str, row_type: str, coverage: float, constant: Callable[[float], str]
) -> str:
    """The function that says how sure the forest is; `constant` writes a float32."""
    number = sure.number_for(forest, coverage)
    assert forest.calibration
    values = {
        "COVERAGE": round(100 * coverage),
        "ROW": row_type,
        "TREES": len(forest),
        "VOTES": forest.n_votes,
        "FLOOR": forest.calibration[0],
        "NUMBER": number,
        "WIDTH": sure.WIDTH,
        "SHARE": sure.SHARE,
        "MOST": forest.scale * len(forest),
        "STEP": constant(forest.step()),
        "LOW": constant(forest.low),
    }
    text = INTERVAL if forest.regression else SET
    for key, value in values.items():
        text = text.replace(f"@{key}U", f"{value}UL").replace(f"@{key}", str(value))
    return text.replace("@", name)
