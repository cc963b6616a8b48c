/* Data: the random stream, bounds of columns, and how numbers become codes. */
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

uint32_t ef_rng_next(ef_rng *rng)
{
    rng->z = step_z(rng->z);
    rng->w = step_w(rng->w);
    return ((rng->z & 32767u) << 15) ^ rng->w;
}

uint32_t ef_rng_below(ef_rng *rng, uint32_t n)
{
    uint32_t limit = MASK - MASK % n;
    uint32_t value = ef_rng_next(rng);
    while (value >= limit)
        value = ef_rng_next(rng);
    return value % n;
}

void ef_rng_fill(ef_rng *rng, uint32_t *values, size_t count, uint32_t n)
{
    uint32_t limit = MASK - MASK % n;
    ef_rng r = *rng;
    for (size_t i = 0; i < count; i++) {
        uint32_t value = ef_rng_next(&r);
        while (value >= limit)
            value = ef_rng_next(&r);
        values[i] = value % n;
    }
    *rng = r;
}

/* ---- Bounds ---- */

/* Bits of a float whose order as integers is the order of the numbers. */
static uint32_t key_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Radix sort, 11 bits at a time; the result is in `a` again. */
static void sort_floats(float *a, size_t n, float *spare)
{
    uint32_t counts[3][2048];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n; i++) {
        uint32_t key = key_of(a[i]);
        counts[0][key & 2047u]++;
        counts[1][(key >> 11) & 2047u]++;
        counts[2][key >> 22]++;
    }
    for (int pass = 0; pass < 3; pass++) {
        uint32_t before = 0;
        for (int i = 0; i < 2048; i++) {
            uint32_t count = counts[pass][i];
            counts[pass][i] = before;
            before += count;
        }
        for (size_t i = 0; i < n; i++) {
            uint32_t digit = (key_of(a[i]) >> (11 * pass)) & 2047u;
            spare[counts[pass][digit]++] = a[i];
        }
        float *other = a;
        a = spare;
        spare = other;
    }
    memcpy(spare, a, n * sizeof *a); /* after three passes the result is in the spare one */
}

int32_t ef_make_bounds(float *sample, size_t n, float *spare, float *bounds)
{
    size_t present = 0, distinct = 0;
    for (size_t i = 0; i < n; i++)
        if (sample[i] == sample[i])
            sample[present++] = sample[i];
    if (present == 0) {
        bounds[0] = bounds[1] = 0.0f;
        return 2;
    }
    n = present;
    sort_floats(sample, n, spare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sample[i] > spare[distinct - 1])
            spare[distinct++] = sample[i];
    const float *ordered = sample;
    size_t parts = 128;
    int spaced = distinct > 255; /* half of the bounds are of equal mass, half equally spaced */
    if (!spaced) {
        ordered = spare;
        n = parts = distinct;
    }
    double low = (double)ordered[0], high = (double)ordered[n - 1];
    int32_t count = 0;
    bounds[count++] = ordered[0];
    for (size_t i = 1, j = spaced ? 1 : parts; i < parts || j < parts;) {
        float cut = EF_HUGE, even = EF_HUGE;
        if (i < parts) {
            float a = ordered[i * n / parts - 1], b = ordered[i * n / parts];
            cut = (float)((double)a * 0.5 + (double)b * 0.5);
            cut = cut < b ? cut : a; /* a, where no float32 lies between the two */
        }
        if (j < parts)
            even = (float)(low + (high - low) * (double)j / (double)parts);
        if (i < parts && (j == parts || cut <= even)) {
            i++;
        } else {
            cut = even;
            j++;
        }
        if ((double)cut < high && (cut > bounds[count - 1] || count == 1))
            bounds[count++] = cut + 0.0f; /* not -0.0 */
    }
    bounds[count++] = ordered[n - 1];
    return count;
}

const char *ef_column_wrong(const ef_column *c)
{
    EF_NEED(c->type <= EF_F64, "a column's type must be one of ef_type");
    EF_NEED(0 <= c->last && c->last < EF_BOUNDS, "the highest code must be from 0 to 255");
    EF_NEED(c->type == EF_CODES || !c->categories, "categories must be codes");
    EF_NEED(c->type == EF_CODES || (c->bounds && c->last), "a column of numbers needs its bounds");
    for (int32_t i = 0; c->bounds && i <= c->last; i++) {
        EF_NEED(c->bounds[i] - c->bounds[i] == 0.0f, "bounds must be finite numbers");
        EF_NEED(!i || c->bounds[i - 1] <= c->bounds[i], "bounds must be in ascending order");
    }
    return NULL;
}

void ef_grid(ef_column *column, uint8_t *grid)
{
    const float *bounds = column->bounds;
    int32_t last = column->last;
    double span = (double)bounds[last] - (double)bounds[0];
    int cells = EF_GRID;
    column->low = (double)bounds[0];
    column->per = span > 0.0 ? EF_GRID / span : 0.0;
    if (!(column->per > 0.0 && column->per <= (double)EF_HUGE)) {
        cells = 0;
        column->per = 0.0;
    }
    /* grid[j]: bounds that lie in a cell before j: all of them are below every value of cell j. */
    int j = 0;
    for (int32_t c = 1; c < last; c++) {
        int cell = (int)(((double)bounds[c] - column->low) * column->per);
        while (j <= cell)
            grid[j++] = (uint8_t)(c - 1);
    }
    while (j < cells + 2)
        grid[j++] = (uint8_t)(last - 1);
    column->grid = grid;
}

void ef_floats(const ef_column *column, const uint32_t *rows, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = ef_value(column, rows[i]);
}

int64_t ef_whole(const ef_column *c, uint32_t row)
{
    const unsigned char *p = c->values + (ptrdiff_t)row * c->step;
    switch (c->type) {
    case EF_I8: return *(const int8_t *)p;
    case EF_I16: { int16_t v; memcpy(&v, p, sizeof v); return v; }
    case EF_U16: { uint16_t v; memcpy(&v, p, sizeof v); return v; }
    case EF_I32: { int32_t v; memcpy(&v, p, sizeof v); return v; }
    case EF_U32: { uint32_t v; memcpy(&v, p, sizeof v); return v; }
    case EF_I64: { int64_t v; memcpy(&v, p, sizeof v); return v; }
    default: return *p;
    }
}

int ef_levels(const ef_column *column, size_t n, uint16_t *levels, double *low, double *high)
{
    int finite = 1;
    *low = (double)EF_HUGE;
    *high = -(double)EF_HUGE;
    for (size_t i = 0; i < n; i++) {
        float x = ef_value(column, (uint32_t)i);
        double v = (double)x;
        finite &= x - x == 0.0f;
        *low = v < *low ? v : *low;
        *high = v > *high ? v : *high;
    }
    double span = *high - *low;
    if (!finite || span > (double)EF_HUGE)
        return 0;
    double per = span > 0 ? EF_LEVELS / span : 0.0;
    for (size_t i = 0; i < n; i++) {
        double level = ((double)ef_value(column, (uint32_t)i) - *low) * per + 0.5;
        level = level < EF_LEVELS ? level : EF_LEVELS;
        levels[i] = (uint16_t)(level > 0.0 ? level : 0.0); /* the data may have changed */
    }
    return 1;
}

int64_t ef_encode(const ef_column *column, size_t first, size_t n, uint8_t *codes, ptrdiff_t step)
{
    ef_column c = *column;
    int64_t infinite = -1;
#define ENCODE(TYPE, CAST)                                                                         \
    for (size_t i = 0; i < n; i++) {                                                               \
        TYPE v;                                                                                    \
        memcpy(&v, c.values + (ptrdiff_t)(first + i) * c.step, sizeof v);                          \
        float x = (float)CAST v;                                                                   \
        if (x - x != 0.0f && x == x && infinite < 0)                                               \
            infinite = (int64_t)(first + i);                                                       \
        codes[(ptrdiff_t)i * step] = ef_code(&c, x);                                               \
    }
    switch (c.type) {
    case EF_I8: ENCODE(int8_t, ) break;
    case EF_CODES:
    case EF_U8: ENCODE(uint8_t, ) break;
    case EF_I16: ENCODE(int16_t, ) break;
    case EF_U16: ENCODE(uint16_t, ) break;
    case EF_I32: ENCODE(int32_t, (double)) break;
    case EF_U32: ENCODE(uint32_t, (double)) break;
    case EF_I64: ENCODE(int64_t, (double)) break;
    case EF_U64: ENCODE(uint64_t, (double)) break;
    case EF_F32: ENCODE(float, ) break;
    default: ENCODE(double, ) break;
    }
#undef ENCODE
    return infinite;
}

void ef_gather(ef_tree *tree, const ef_column *c, const uint32_t *rows, int n, uint8_t *codes)
{
    if (c->type == EF_CODES) {
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
