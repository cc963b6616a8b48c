/* Data: the random stream, and the codes of a column. */
#include "internal.h"

#define MASK ((uint32_t)EF_MASK)

/* ---- Rng ---- */

static uint32_t step_z(uint32_t z) { return 25338u * (z & 32767u) + (z >> 15); }
static uint32_t step_w(uint32_t w) { return 26100u * (w & 32767u) + (w >> 15); }

void ef_rng_begin(ef_rng *rng, uint32_t seed, uint32_t stream)
{
    uint32_t z = 12345, w = 67890;
    uint32_t words[4];
    words[0] = seed & 32767u;
    words[1] = (seed >> 15) & 32767u;
    words[2] = stream & 32767u;
    words[3] = (stream >> 15) & 32767u;
    for (int i = 0; i < 4; i++) {
        z ^= words[i];
        for (int k = 0; k < 8; k++) {
            z = step_z(z);
            w = step_w(w);
            z ^= w & 32767u;
            w ^= z >> 15;
        }
    }
    rng->z = z % 830275000u + 1;
    rng->w = w % 855244000u + 1;
}

static inline uint32_t next(ef_rng *rng)
{
    rng->z = step_z(rng->z);
    rng->w = step_w(rng->w);
    return ((rng->z & 32767u) << 15) ^ rng->w;
}

uint32_t ef_rng_next(ef_rng *rng) { return next(rng); }

uint32_t ef_rng_below(ef_rng *rng, uint32_t n)
{
    uint32_t limit = MASK - MASK % n;
    uint32_t value = next(rng);
    while (value >= limit)
        value = next(rng);
    return value % n;
}

void ef_rng_fill(ef_rng *rng, uint32_t *values, size_t count, uint32_t n)
{
    uint32_t limit = MASK - MASK % n;
    ef_rng r = *rng;
    for (size_t i = 0; i < count; i++) {
        uint32_t value = next(&r);
        while (value >= limit)
            value = next(&r);
        values[i] = value % n;
    }
    *rng = r;
}

/* ---- Columns ---- */

const char *ef_column_wrong(const ef_column *c)
{
    EF_NEED(c->type <= EF_F64, "a column's type must be one of ef_type");
    EF_NEED(0 <= c->last && c->last < EF_BOUNDS, "the highest code must be from 0 to 255");
    EF_NEED(c->type == EF_CODES || !EF_IS_CODES(c), "columns must be codes");
    EF_NEED(c->type == EF_CODES || !c->categories, "categories must be codes");
    EF_NEED(c->type == EF_CODES || (c->bounds && c->last), "a column of numbers needs its bounds");
    for (int32_t i = 0; c->bounds && i <= c->last; i++) {
        EF_NEED(c->bounds[i] - c->bounds[i] == 0.0f, "bounds must be finite numbers");
        EF_NEED(!i || c->bounds[i - 1] <= c->bounds[i], "bounds must be in ascending order");
    }
    return NULL;
}

void ef_gather(ef_tree *tree, const ef_column *c, const ef_row *rows, int n, uint8_t *codes)
{
    if (EF_IS_CODES(c)) {
        const unsigned char *values = c->values;
        ptrdiff_t step = c->step;
        for (int i = 0; i < n; i++)
            codes[i] = values[(ptrdiff_t)rows[i] * step];
        return;
    }
    for (int i = 0; i < n; i++) {
        float x = ef_value(c, rows[i]);
        if (x - x != 0.0f && x == x)
            tree->infinite = 1; /* the caller refuses such data */
        codes[i] = ef_code(c, x);
    }
}
