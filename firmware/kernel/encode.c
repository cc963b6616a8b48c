/* Encoding: bounds of columns, and how numbers become codes. A board reads codes alone. */
#include "internal.h"

enum { PART = 128 }; /* numbers that are coded together */

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
    const float *ordered = spare; /* each value once */
    /* Of many, a quarter of the bounds are spread over them, the others equally spaced. */
    size_t parts = distinct > 255 ? 64 : distinct, spaced = distinct > 255 ? 192 : 1;
    n = distinct;
    double low = (double)ordered[0], high = (double)ordered[n - 1];
    int32_t count = 0;
    bounds[count++] = ordered[0];
    for (size_t i = 1, j = 1; i < parts || j < spaced;) {
        float cut = EF_HUGE, even = EF_HUGE;
        if (i < parts) {
            float a = ordered[i * n / parts - 1], b = ordered[i * n / parts];
            cut = (float)((double)a * 0.5 + (double)b * 0.5);
            cut = cut < b ? cut : a; /* a, where no float32 lies between the two */
        }
        if (j < spaced)
            even = (float)(low + (high - low) * (double)j / (double)spaced);
        if (i < parts && (j == spaced || cut <= even)) {
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
    column->crowded = 0;
    for (j = 0; j <= cells; j++)
        column->crowded = (uint8_t)(column->crowded | (grid[j + 1] - grid[j] > 2));
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

/* The codes of numbers, as ef_code gives them, of a column that is not crowded: without branches, which the
 * processor would often guess wrong. */
static void encode_part(const ef_column *c, const float *numbers, int n, uint8_t *codes, ptrdiff_t step)
{
    const float *bounds = c->bounds;
    const uint8_t *grid = c->grid;
    float first = bounds[0], last = bounds[c->last];
    double low = c->low, per = c->per;
    int32_t cells[PART];
    for (int i = 0; i < n; i++) {
        float x = numbers[i] > first ? numbers[i] : first; /* also if it is missing */
        x = x < last ? x : last;
        cells[i] = (int32_t)(((double)x - low) * per);
    }
    for (int i = 0; i < n; i++) {
        unsigned a = ef_bounds_below(bounds, grid[cells[i]], grid[cells[i] + 1], numbers[i]);
        codes[(ptrdiff_t)i * step] = (uint8_t)(numbers[i] == numbers[i] ? a + 1 : 0);
    }
}

int64_t ef_encode(const ef_column *column, size_t first, size_t n, uint8_t *codes, ptrdiff_t step)
{
    ef_column c = *column;
    int64_t infinite = -1;
    for (size_t at = 0; at < n; at += PART) {
        float numbers[PART];
        int part = n - at < PART ? (int)(n - at) : PART, odd = 0;
        const unsigned char *values = c.values + (ptrdiff_t)(first + at) * c.step;
#define READ(TYPE, CAST)                                                                           \
    for (int i = 0; i < part; i++) {                                                               \
        TYPE v;                                                                                    \
        memcpy(&v, values + (ptrdiff_t)i * c.step, sizeof v);                                      \
        numbers[i] = (float)CAST v;                                                                \
    }
        switch (c.type) {
        case EF_I8: READ(int8_t, ) break;
        case EF_CODES:
        case EF_U8: READ(uint8_t, ) break;
        case EF_I16: READ(int16_t, ) break;
        case EF_U16: READ(uint16_t, ) break;
        case EF_I32: READ(int32_t, (double)) break;
        case EF_U32: READ(uint32_t, (double)) break;
        case EF_I64: READ(int64_t, (double)) break;
        case EF_U64: READ(uint64_t, (double)) break;
        case EF_F32: READ(float, ) break;
        default: READ(double, ) break;
        }
#undef READ
        for (int i = 0; i < part; i++)
            odd |= (numbers[i] - numbers[i] != 0.0f) & (numbers[i] == numbers[i]);
        for (int i = 0; odd && infinite < 0; i++)
            if (numbers[i] - numbers[i] != 0.0f && numbers[i] == numbers[i])
                infinite = (int64_t)(first + at) + i;
        uint8_t *to = codes + (ptrdiff_t)at * step;
        if (!c.crowded)
            encode_part(&c, numbers, part, to, step);
        for (int i = 0; c.crowded && i < part; i++)
            to[(ptrdiff_t)i * step] = ef_code(&c, numbers[i]);
    }
    return infinite;
}
