/* What all parts of the kernel share; a library that uses the kernel needs only edgeforest.h. */
#ifndef EF_INTERNAL_H
#define EF_INTERNAL_H

#include "edgeforest.h"

#include <math.h>
#include <string.h>

/* Parts that a build may leave out. What stands behind such a condition is then never compiled;
 * ef_task_wrong refuses a task that asks for it.
 *   EF_WITHOUT_PAPER    Algorithm 1 of the paper: leave out race_paper.c
 *   EF_WITHOUT_ENTROPY
 *   EF_WITHOUT_MSE      regressions
 *   EF_BOARD            all columns are codes, each in a place of its own (leave out encode.c,
 *                       predict.c and online*.c); small code, a small stack, one sentence for all */
#ifdef EF_WITHOUT_PAPER
#define EF_IS_PAPER(task) ((void)(task), 0)
#else
#define EF_IS_PAPER(task) ((task)->splitter == EF_PAPER)
#endif
#ifdef EF_WITHOUT_ENTROPY
#define EF_IS_ENTROPY(task) ((void)(task), 0)
#else
#define EF_IS_ENTROPY(task) ((task)->criterion == EF_ENTROPY)
#endif
#ifdef EF_WITHOUT_MSE
#define EF_IS_MSE(task) ((void)(task), 0)
#define EF_MOMENTS 1
#else
#define EF_IS_MSE(task) ((task)->criterion == EF_MSE)
#ifdef EF_WITHOUT_PAPER
#define EF_MOMENTS 3 /* the most sums of a target in a bin */
#else
#define EF_MOMENTS 5
#endif
#endif
#define EF_IS_GINI(task) (!EF_IS_ENTROPY(task) && !EF_IS_MSE(task))
#ifdef EF_BOARD
#define EF_IS_CODES(column) ((void)(column), 1)
#define EF_IS_ROW_MAJOR(task) ((void)(task), 0)
#define EF_IS_SMALL 1
#define EF_PIECE EF_GROUP_ROWS
#define EF_BECAUSE(sentence) "the kernel refuses these arguments"
#else
#define EF_IS_CODES(column) ((column)->type == EF_CODES)
#define EF_IS_ROW_MAJOR(task) ((task)->row_major)
#define EF_IS_SMALL 0
#define EF_PIECE 128 /* rows that are gathered at once */
#define EF_BECAUSE(sentence) sentence
#endif
#define EF_WORK 1000000 /* values read between two polls */

#define EF_LINE 64 /* bytes of a cache line */
#ifdef __GNUC__
#define EF_PREFETCH(address) __builtin_prefetch(address)
#define EF_APART __attribute__((noinline)) /* its memory on the stack is not its caller's too */
#define EF_INLINE static inline __attribute__((always_inline))
#else
#define EF_APART
#define EF_INLINE static inline
#define EF_PREFETCH(address) (void)(address)
#endif

/* Functions that only the kernel calls: a library does not export them, so calls are direct. */
#if defined(__GNUC__) && defined(__ELF__)
#define EF_HIDE _Pragma("GCC visibility push(hidden)")
#define EF_SHOW _Pragma("GCC visibility pop")
#else
#define EF_HIDE
#define EF_SHOW
#endif

/* Return this sentence from a function that says what is wrong. */
#define EF_NEED(holds, sentence)                                                                   \
    do {                                                                                           \
        if (!(holds))                                                                              \
            return EF_BECAUSE(sentence);                                                           \
    } while (0)

/* The square root and the logarithm of an ef_real. */
static inline ef_real ef_root(ef_real x)
{
    return sizeof x == sizeof(float) ? (ef_real)sqrtf((float)x) : (ef_real)sqrt((double)x);
}

static inline ef_real ef_ln(ef_real x)
{
    return sizeof x == sizeof(float) ? (ef_real)logf((float)x) : (ef_real)log((double)x);
}

/* A product of sizes, SIZE_MAX if it is larger than that. */
static inline size_t ef_product(size_t a, size_t b)
{
    return b && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

/* What a sample says about the gain of an arm: Interval of intervals.py. */
typedef struct {
    ef_real plain, gain, variance; /* as counted; without its bias; how much that varies */
    ef_real root, shift, error; /* estimates the root of gain + shift; error is its variance */
} ef_interval;

/* One feature in a race: its bins, its histogram, its best arm so far. */
struct ef_contender {
    const ef_column *column;
    size_t h; /* where its cells begin */
    ef_real score, gain, variance;
    ef_interval interval;
    uint16_t feature;
    uint8_t bins, equal, found, bin, missing_left;
    uint8_t head[EF_GROUP_ROWS]; /* codes of the node's first rows */
    uint8_t cuts[256];  /* bin -> highest code in it */
    uint8_t table[264]; /* code -> bin; some room at the end */
    uint8_t alive[64];  /* arms not yet eliminated, for the paper's race */
};

#define EF_CONTENDER_HEAD offsetof(ef_contender, head) /* bytes that describe its best arm */

/* The winner of a race. */
typedef struct {
    ef_real gain;
    uint16_t feature;
    uint8_t code, equal, missing_left;
} ef_split;

/* Of eight bytes in memory, the place of the first that is not zero; and a mask for it. */
static inline int ef_first_byte(uint64_t x)
{
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_ctzll(x) >> 3;
#else
    unsigned char bytes[8];
    int place = 0;
    memcpy(bytes, &x, sizeof bytes);
    while (!bytes[place])
        place++;
    return place;
#endif
}

static inline uint64_t ef_byte_mask(int place)
{
#if defined(__GNUC__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (uint64_t)255 << (8 * place);
#else
    unsigned char bytes[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t mask;
    bytes[place] = 255;
    memcpy(&mask, bytes, sizeof mask);
    return mask;
#endif
}

static inline float ef_value(const ef_column *c, uint32_t row)
{
    const unsigned char *p = c->values + (ptrdiff_t)row * c->step;
    switch (c->type) {
    case EF_I8: return (float)*(const int8_t *)p;
    case EF_CODES:
    case EF_U8: return (float)*p;
    case EF_I16: { int16_t v; memcpy(&v, p, sizeof v); return (float)v; }
    case EF_U16: { uint16_t v; memcpy(&v, p, sizeof v); return (float)v; }
    /* By way of double, as Python does. */
    case EF_I32: { int32_t v; memcpy(&v, p, sizeof v); return (float)(double)v; }
    case EF_U32: { uint32_t v; memcpy(&v, p, sizeof v); return (float)(double)v; }
    case EF_I64: { int64_t v; memcpy(&v, p, sizeof v); return (float)(double)v; }
    case EF_U64: { uint64_t v; memcpy(&v, p, sizeof v); return (float)(double)v; }
    case EF_F32: { float v; memcpy(&v, p, sizeof v); return v; }
    default: { double v; memcpy(&v, p, sizeof v); return (float)v; }
    }
}

/* How many bounds after the first lie below x, which is at least a and at most b, two more than a: no
 * branch, the processor would often guess wrong. */
static inline unsigned ef_bounds_below(const float *bounds, unsigned a, unsigned b, float x)
{
    a += (unsigned)(a < b) & (unsigned)(bounds[a + 1] < x);
    return a + ((unsigned)(a < b) & (unsigned)(bounds[a + 1] < x));
}

/* encode of codes.py for one number: 1 + how many bounds after the first lie below it. */
static inline uint8_t ef_code(const ef_column *c, float x)
{
    const float *bounds = c->bounds;
    if (x > bounds[0] && x < bounds[c->last]) {
        int cell = (int)(((double)x - c->low) * c->per);
        unsigned a = c->grid[cell], b = c->grid[cell + 1];
        if (b - a > 2) { /* rare: more than two bounds in a cell */
            while (a < b) {
                unsigned middle = (a + b) >> 1;
                if (bounds[middle + 1] < x)
                    a = middle + 1;
                else
                    b = middle;
            }
        } else {
            a = ef_bounds_below(bounds, a, b, x);
        }
        return (uint8_t)(a + 1);
    }
    if (x <= bounds[0])
        return 1;
    return x == x ? (uint8_t)c->last : 0;
}

static inline ef_real ef_bound(const ef_column *c, int code)
{
    return c->bounds ? (ef_real)c->bounds[code] : (ef_real)code;
}

static inline uint32_t ef_label(const ef_task *task, uint32_t row)
{
    return task->y8 ? task->y8[row] : task->y16[row];
}

static inline uint32_t ef_times(const ef_tree *tree, uint32_t row)
{
    return tree->times8 ? tree->times8[row] : tree->times16 ? tree->times16[row] : 1;
}

/* The same of the row at a place of `rows`. A board looks them up; elsewhere they lie beside it, so that
 * memory is read in order. */
static inline uint32_t ef_label_at(const ef_tree *tree, int64_t at)
{
    return EF_IS_SMALL ? ef_label(tree->task, tree->rows[at]) : tree->notes[at] & 65535u;
}

#define EF_NOTES(tree, at) (EF_IS_SMALL ? NULL : (tree)->notes + (at))

static inline uint32_t ef_times_at(const ef_tree *tree, int64_t at)
{
    return EF_IS_SMALL ? ef_times(tree, tree->rows[at]) : tree->notes[at] >> 16;
}

EF_HIDE

/* The codes of some rows. */
void ef_gather(ef_tree *tree, const ef_column *column, const ef_row *rows, int n,
               uint8_t *codes);

/* Ask the caller whether to continue, if enough was done since the last time. */
ef_word ef_ask(ef_tree *tree, int64_t work, int every_round);

/* Find the split of the node with rows start .. end; returns whether there is one. */
int ef_race(ef_tree *tree, int64_t start, int64_t end, ef_split *split);

/* Add how often rows start .. end were drawn, by class, or that and the sum of their targets. */
void ef_sum_rows(const ef_tree *tree, int64_t start, int64_t end, int64_t *cells);

/* The gain of a split of rows start .. end at `middle`, computed from all of them. */
ef_real ef_gain(ef_tree *tree, int64_t start, int64_t middle, int64_t end);

/* The most bins that a feature of numbers can have: most_bins of nodes.py. */
int ef_most_bins(const ef_task *task);

/* For races whose rows come one by one. Sum up a histogram: returns how many rows the node has, and
 * sets their impurity. */
int64_t ef_sum_up(ef_tree *tree, const ef_contender *c, ef_real *its_impurity);

/* Find its best arm and estimate the gain; returns whether there is one. And how much that gain varies. */
int ef_best(ef_tree *tree, ef_contender *c, int64_t n, int64_t least, ef_real rest);
ef_real ef_variance(ef_tree *tree, const ef_contender *c, ef_real rest);

/* Sum up the left side of its best arm, after the sums of the node. Sets how many rows are in both;
 * returns whether missing values go left, -1 if none was seen. */
int ef_weigh_sides(ef_tree *tree, const ef_contender *c, int64_t *size, int64_t *on_left);

EF_SHOW
#endif
