/* Sweep: the best arm of a histogram with narrow cells, from the lowest bin to the highest.
 *
 * First the sums of every arm are listed, then all of them are scored, and then the best is looked for: in
 * loops without branches, which a compiler turns into vectors. Sums of whole numbers are exact, so the
 * scores are those of ef_score.
 */
#include "race.h"

#ifndef EF_BOARD
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { MOST = 2 * 256 + 1 }; /* arms: missing values go right or left; one is overwritten */

/* Arms in the order in which they are tried. */
typedef struct {
    int count;
    uint16_t which[MOST]; /* 2 x bin, and 1 more if missing values go left */
    int32_t on_left[MOST];
    ef_real scores[MOST];
} ef_list;

/* Find the first of those that score highest, with enough rows on either side. */
static void pick(const ef_list *list, ef_contender *c, int32_t n, int64_t least)
{
    ef_real top = -1;
    int best = -1;
    for (int i = 0; i < list->count; i++) { /* a score is NaN if a side is empty */
        int better = (list->scores[i] > top) & (list->on_left[i] >= least) &
                     (n - list->on_left[i] >= least);
        top = better ? list->scores[i] : top;
        best = better ? i : best;
    }
    c->found = best >= 0;
    if (!c->found)
        return;
    c->score = top;
    c->bin = (uint8_t)(list->which[best] >> 1);
    c->missing_left = list->which[best] & 1;
}

/* Eight sums of classes. */
#ifdef __SSE2__
typedef __m128i ef_eight;

static inline ef_eight eight_at(const int16_t *cells)
{
    return _mm_loadu_si128((const __m128i *)(const void *)cells);
}

static inline ef_eight eight_sum(ef_eight a, ef_eight b) { return _mm_add_epi16(a, b); }
#else
typedef struct {
    int16_t of[8];
} ef_eight;

static inline ef_eight eight_at(const int16_t *cells)
{
    ef_eight e;
    memcpy(e.of, cells, sizeof e.of);
    return e;
}

static inline ef_eight eight_sum(ef_eight a, ef_eight b)
{
    for (int k = 0; k < 8; k++)
        a.of[k] = (int16_t)(a.of[k] + b.of[k]);
    return a;
}
#endif

/* How many rows these are, the sum of their squares, and that of their products with the total. */
EF_INLINE void weigh(int eights, const ef_eight *left, const ef_eight *total, int32_t *rows,
                     int32_t *square, int32_t *product)
{
#ifdef __SSE2__
    __m128i n = _mm_setzero_si128(), s = n, p = n, one = _mm_set1_epi16(1);
    for (int k = 0; k < eights; k++) {
        n = _mm_add_epi32(n, _mm_madd_epi16(left[k], one));
        s = _mm_add_epi32(s, _mm_madd_epi16(left[k], left[k]));
        p = _mm_add_epi32(p, _mm_madd_epi16(left[k], total[k]));
    }
    s = _mm_add_epi32(_mm_unpacklo_epi32(s, p), _mm_unpackhi_epi32(s, p));
    s = _mm_add_epi32(s, _mm_srli_si128(s, 8));
    n = _mm_add_epi32(n, _mm_srli_si128(n, 8));
    *rows = _mm_cvtsi128_si32(n) + _mm_cvtsi128_si32(_mm_srli_si128(n, 4));
    *square = _mm_cvtsi128_si32(s);
    *product = _mm_cvtsi128_si32(_mm_srli_si128(s, 4));
#else
    *rows = *square = *product = 0;
    for (int k = 0; k < eights; k++)
        for (int i = 0; i < 8; i++) {
            *rows += left[k].of[i];
            *square += (int32_t)left[k].of[i] * left[k].of[i];
            *product += (int32_t)left[k].of[i] * total[k].of[i];
        }
#endif
}

EF_INLINE void sweep_classes(int eights, const int16_t *cells, ef_contender *c, const int64_t *sums,
                             int32_t classes, int64_t least)
{
    int16_t totals[32] = {0};
    ef_eight left[4], total[4], missing[4];
    int32_t squares[MOST], products[MOST], n, all, missed, before = 0, square, product;
    ef_list list;
    int count = 0;
    for (int32_t k = 0; k < classes; k++)
        totals[k] = (int16_t)sums[k];
    for (int k = 0; k < eights; k++) {
        total[k] = eight_at(totals + 8 * k);
        missing[k] = eight_at(cells + 8 * k);
    }
    weigh(eights, total, total, &n, &all, &product);
    weigh(eights, missing, total, &missed, &square, &product);
    memset(left, 0, sizeof left);
    for (int t = 1; t < c->bins + (missed != 0); t++) {
        for (int k = 0; k < eights; k++)
            left[k] = eight_sum(left[k], eight_at(cells + 8 * (t * eights + k)));
        weigh(eights, left, total, &list.on_left[count], &squares[count], &products[count]);
        list.which[count] = (uint16_t)(2 * t);
        if (missed) {
            ef_eight with[4];
            int some = list.on_left[count] > before; /* else it is the same arm as the one before */
            before = list.on_left[count];
            count += some;
            for (int k = 0; k < eights; k++)
                with[k] = eight_sum(left[k], missing[k]);
            weigh(eights, with, total, &list.on_left[count], &squares[count], &products[count]);
            list.which[count] = (uint16_t)(2 * t + 1);
            count += some && t < c->bins;
        } else {
            count++;
        }
    }
    list.count = count;
    for (int i = 0; i < count; i++) {
        int32_t others = all - 2 * products[i] + squares[i];
        list.scores[i] = (ef_real)squares[i] / (ef_real)list.on_left[i] +
                         (ef_real)others / (ef_real)(n - list.on_left[i]);
    }
    pick(&list, c, n, least);
}

static void sweep_targets(const int64_t *cells, ef_contender *c, const int64_t *total, int64_t least)
{
    ef_list list;
    ef_real targets[MOST];
    int64_t left = 0, missing = cells[0];
    int32_t n = (int32_t)total[0];
    int count = 0;
    for (int t = 1; t < c->bins + (missing != 0); t++) {
        left += cells[t];
        for (int also = 0; also <= (missing && t < c->bins); also++) {
            int64_t sums = also ? left + missing : left;
            list.which[count] = (uint16_t)(2 * t + also);
            list.on_left[count] = (int32_t)(sums >> EF_ROWS_AT);
            targets[count] = (ef_real)(sums & (((int64_t)1 << EF_ROWS_AT) - 1));
            count += !missing || cells[t] != 0;
        }
    }
    list.count = count;
    ef_real all = (ef_real)total[0], whole = (ef_real)total[1];
    for (int i = 0; i < count; i++) { /* as in ef_mse_score */
        ef_real d = (targets[i] * all - whole * (ef_real)list.on_left[i]) / all;
        list.scores[i] = d * d / ((ef_real)list.on_left[i] * (ef_real)(n - list.on_left[i]));
    }
    pick(&list, c, n, least);
}

void ef_sweep(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t least)
{
    const int16_t *cells = (const int16_t *)tree->cells + c->h;
    if (EF_IS_MSE(tree->task))
        sweep_targets((const int64_t *)tree->cells + c->h, c, total, least);
    else if (tree->narrow == 8)
        sweep_classes(1, cells, c, total, tree->width, least);
    else if (tree->narrow == 16)
        sweep_classes(2, cells, c, total, tree->width, least);
    else
        sweep_classes(4, cells, c, total, tree->width, least);
}

#endif
