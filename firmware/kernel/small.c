/* Small nodes: all rows are counted, one feature after the other, without histograms if possible.
 *
 * Rows lie in planes of bytes, so that one pass over 16 bytes at a time gives the sums of all rows
 * up to a code. Weighted rows, missing values, categories and random cuts go through histograms; on
 * a board all do, because that takes less code, and fewer instructions where there are no vectors.
 */
#include "race.h"

/* The rows of a small node as planes. For class k, `planes[k * EF_GROUP_ROWS + i]` is how often row
 * i was drawn if it is of that class, else 0. For a regression plane 0 has the times, and planes 1
 * to 3 have the bytes of times x target. Rows are padded with zeros to a multiple of 16. */
typedef struct {
    int n, padded;
    uint8_t *planes;
} ef_small;

/* Which rows have a code of at most `code`, as bytes of 0 or 255; and sums of bytes over those. */
#ifdef __SSE2__
#include <emmintrin.h>

typedef struct {
    __m128i part[EF_GROUP_ROWS / 16];
} ef_mask;

static inline void rows_up_to(const uint8_t *codes, int padded, uint8_t code, ef_mask *mask)
{
    __m128i highest = _mm_set1_epi8((char)code);
    for (int i = 0; i < padded; i += 16) {
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(codes + i));
        mask->part[i >> 4] = _mm_cmpeq_epi8(_mm_min_epu8(c, highest), c);
    }
}

static inline int64_t sum_of(const ef_mask *mask, const uint8_t *bytes, int padded)
{
    __m128i sum = _mm_setzero_si128();
    for (int i = 0; i < padded; i += 16) {
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        b = _mm_and_si128(mask->part[i >> 4], b);
        sum = _mm_add_epi64(sum, _mm_sad_epu8(b, _mm_setzero_si128()));
    }
    return _mm_cvtsi128_si32(sum) + _mm_extract_epi16(sum, 4);
}
#else
typedef struct {
    uint8_t part[EF_GROUP_ROWS];
} ef_mask;

static inline void rows_up_to(const uint8_t *codes, int padded, uint8_t code, ef_mask *mask)
{
    for (int i = 0; i < padded; i++)
        mask->part[i] = codes[i] <= code ? 255 : 0;
}

static inline int64_t sum_of(const ef_mask *mask, const uint8_t *bytes, int padded)
{
    uint32_t sum = 0;
    for (int i = 0; i < padded; i++)
        sum += (uint32_t)(mask->part[i] & bytes[i]);
    return sum;
}
#endif

/* Fill in the planes and the sums of the node. */
static void lay_planes(ef_tree *tree, const ef_piece *piece, ef_small *small, int64_t *total)
{
    int squared = EF_IS_MSE(tree->task);
    ef_clear(tree, total);
    if (EF_IS_SMALL) { /* all features go through histograms: the sums are enough */
        for (int i = 0; i < small->n; i++)
            if (squared)
                for (int k = 0; k < tree->width; k++)
                    total[k] += piece->moments[k * EF_PIECE + i];
            else
                total[piece->labels[i]] += piece->times[i];
        return;
    }
    memset(small->planes, 0, (size_t)(squared ? 4 : tree->width) * EF_GROUP_ROWS);
    for (int i = 0; i < small->n; i++) {
        if (squared) {
            for (int k = 0; k < tree->width; k++)
                total[k] += piece->moments[k * EF_PIECE + i];
            small->planes[i] = (uint8_t)piece->times[i];
            for (int k = 0; k < 3; k++)
                small->planes[(k + 1) * EF_GROUP_ROWS + i] =
                    (uint8_t)(piece->moments[EF_PIECE + i] >> (8 * k));
        } else {
            total[piece->labels[i]] += piece->times[i];
            small->planes[piece->labels[i] * EF_GROUP_ROWS + (uint32_t)i] =
                (uint8_t)piece->times[i];
        }
    }
}

/* Score the split whose left side is this mask; returns 0 if a side has too few rows. */
static inline int score_mask(ef_tree *tree, const ef_small *small, const ef_mask *mask,
                             const int64_t *total, int64_t size, ef_real *score)
{
    const ef_task *task = tree->task;
    int64_t least = task->min_samples_leaf, *left = EF_VECTOR(tree, 1);
    if (EF_IS_MSE(task)) {
        int64_t sums[4];
        for (int k = 0; k < 4; k++)
            sums[k] = sum_of(mask, small->planes + k * EF_GROUP_ROWS, small->padded);
        if (sums[0] < least || size - sums[0] < least)
            return 0;
        int64_t targets = sums[1] + sums[2] * 256 + sums[3] * 65536;
        ef_real all = (ef_real)total[0], n_left = (ef_real)sums[0]; /* the same as in ef_score */
        ef_real d = ((ef_real)targets * all - (ef_real)total[1] * n_left) / all;
        *score = d * d / (n_left * (ef_real)(size - sums[0]));
        return 1;
    }
    int64_t a = 0, b = 0, n_left = 0;
    for (int32_t k = 0; k < tree->width; k++) {
        int64_t count = sum_of(mask, small->planes + k * EF_GROUP_ROWS, small->padded);
        left[k] = count;
        n_left += count;
        a += count * count;
        b += (total[k] - count) * (total[k] - count);
    }
    if (n_left < least || size - n_left < least)
        return 0;
    if (EF_IS_GINI(task))
        *score = (ef_real)a / (ef_real)n_left + (ef_real)b / (ef_real)(size - n_left);
    else
        *score = ef_score(tree, left, total, n_left, size - n_left);
    return 1;
}

/* Find the best threshold of a feature; no value is missing. */
static void best_by_masks(ef_tree *tree, ef_contender *c, const ef_small *small,
                          const int64_t *total, int64_t size)
{
    ef_order o;
    int16_t cuts[256];
    ef_sort_codes(&o, c->head, small->n);
    int count = ef_cuts_between(&o, 0, ef_bins_for(tree->task, small->n), cuts);
    memset(c->head + small->n, 255, (size_t)(small->padded - small->n));
    c->found = 0;
    for (int i = 0; i < count; i++) {
        ef_mask mask;
        ef_real score;
        rows_up_to(c->head, small->padded, (uint8_t)cuts[i], &mask);
        if (score_mask(tree, small, &mask, total, size, &score) && (!c->found || score > c->score)) {
            c->found = 1;
            c->score = score;
            c->cuts[1] = (uint8_t)cuts[i];
        }
    }
    c->bin = 1;
    c->equal = c->missing_left = 0;
}

/* Find the best arm of a feature by a histogram. */
static void best_by_cells(ef_tree *tree, ef_contender *c, const ef_row *rows, int n,
                          const ef_piece *piece, int64_t size)
{
    ef_order order;
    ef_sort_codes(&order, c->head, n);
    ef_make_bins(tree, c, &order, 1, n);
    c->h = c == tree->contenders ? 0 : tree->most_cells;
    ef_zero_cells(tree, c->h, (size_t)(c->bins + 1) * (size_t)tree->width);
    ef_count(tree, c, rows, n, piece, 1);
    ef_best_arm(tree, c, EF_TOTAL(tree), size, tree->task->min_samples_leaf);
}

/* The sums of the left side of a threshold, into EF_VECTOR 1. */
static void sum_left(ef_tree *tree, const ef_contender *c, int n, const ef_piece *piece)
{
    int64_t *left = EF_VECTOR(tree, 1);
    ef_clear(tree, left);
    for (int i = 0; i < n; i++)
        if (c->head[i] <= c->cuts[1]) {
            if (EF_IS_MSE(tree->task))
                for (int k = 0; k < tree->width; k++)
                    left[k] += piece->moments[k * EF_PIECE + i];
            else
                left[piece->labels[i]] += piece->times[i];
        }
}

/* Nodes.race_small */
int ef_race_small(ef_tree *tree, int64_t start, int64_t n_rows, ef_split *split)
{
    const ef_task *task = tree->task;
    const ef_row *rows = tree->rows + start;
    ef_contender *best = NULL, *c = tree->contenders, *other = tree->contenders + 1;
    int n = (int)n_rows, best_has_cells = 1;
    int32_t drawn = 0, chosen = 0;
    int64_t *total = EF_TOTAL(tree);
    ef_piece piece;
    ef_small small = {n, (n + 15) & ~15, tree->planes};
    ef_look_up(tree, rows, n, &piece);
    lay_planes(tree, &piece, &small, total);
    int64_t size = ef_rows_in(tree, total);
    ef_real perfect = EF_IS_GINI(task) ? (ef_real)size
                     : EF_IS_ENTROPY(task) ? 0 : (ef_real)HUGE_VAL;
    while ((drawn < task->max_features || chosen == 0) &&
           ef_draw_next(tree, rows, n, &drawn, c)) {
        if (!ef_varies(c->head, n))
            continue;
        chosen++;
        if (ef_take(tree, n, 1) <= 0)
            break;
        int by_cells = EF_IS_SMALL || task->extra || tree->times16 || c->column->categories ||
                       (!task->raw && memchr(c->head, 0, (size_t)n));
        if (by_cells)
            best_by_cells(tree, c, rows, n, &piece, size);
        else
            best_by_masks(tree, c, &small, total, size);
        if (c->found && (!best || c->score > best->score)) {
            ef_contender *unused = best ? best : other;
            best = c;
            c = unused;
            best_has_cells = by_cells;
            if (n == 2 || best->score >= perfect)
                break;
        }
    }
    tree->work += (int64_t)n * drawn;
    if (!best)
        return 0;
    if (best_has_cells) {
        ef_decide_by_cells(tree, best, 0.0, split);
    } else {
        sum_left(tree, best, n, &piece);
        ef_decide(tree, best, 0.0, 0, split);
    }
    return 1;
}
