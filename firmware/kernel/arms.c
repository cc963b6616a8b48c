/* Arms: every way to split by one histogram, and the best of them.
 *
 * Bin 0 counts missing values, bins 1 and up the codes in order. An arm sends the bins up to t left
 * (of categories: bin t alone), and missing values to either side.
 */
#include "race.h"

int ef_add_bin(const ef_tree *tree, const ef_contender *c, int bin, int64_t *to)
{
    int32_t width = tree->width;
    size_t at = c->h + (size_t)bin * ef_stride(tree);
    int64_t some = 0;
    if (EF_NARROW(tree) && EF_IS_MSE(tree->task)) {
        some = ((const int64_t *)tree->cells)[at];
        to[0] += some >> EF_ROWS_AT;
        to[1] += some & (((int64_t)1 << EF_ROWS_AT) - 1);
        return some != 0;
    }
    if (EF_NARROW(tree)) {
        const int16_t *narrow = (const int16_t *)tree->cells + at;
        for (int32_t k = 0; k < width; k++) {
            to[k] += narrow[k];
            some |= narrow[k];
        }
        return some != 0;
    }
    if (EF_IS_MSE(tree->task)) {
        const int64_t *cells = (const int64_t *)tree->cells + at;
        for (int32_t k = 0; k < width; k++)
            to[k] += cells[k];
        return cells[0] != 0;
    }
    const int32_t *cells = (const int32_t *)tree->cells + at;
    for (int32_t k = 0; k < width; k++) {
        to[k] += cells[k];
        some |= cells[k];
    }
    return some != 0;
}

/* Add the cells of bins first .. last to a vector. */
static void add_bins(const ef_tree *tree, const ef_contender *c, int first, int last, int64_t *to)
{
    int32_t width = tree->width;
    size_t at = c->h + (size_t)first * (size_t)width;
    if (EF_IS_MSE(tree->task) && width == 3 && !EF_NARROW(tree)) {
        const int64_t *cells = (const int64_t *)tree->cells + at;
        int64_t a = to[0], b = to[1], d = to[2];
        for (int bin = first; bin <= last; bin++, cells += 3) {
            a += cells[0];
            b += cells[1];
            d += cells[2];
        }
        to[0] = a;
        to[1] = b;
        to[2] = d;
        return;
    }
    for (int bin = first; bin <= last; bin++)
        ef_add_bin(tree, c, bin, to);
}

void ef_total_of(ef_tree *tree, const ef_contender *c)
{
    ef_clear(tree, EF_TOTAL(tree));
    add_bins(tree, c, 0, c->bins, EF_TOTAL(tree));
}

void ef_arms_begin(ef_tree *tree, ef_arms *a, const ef_contender *c, int64_t *left, int64_t *with,
                   int64_t *missing)
{
    ef_clear(tree, left);
    ef_clear(tree, missing);
    a->c = c;
    a->some_missing = ef_add_bin(tree, c, 0, missing);
    a->left = left;
    a->cells = left;
    a->with = with;
    a->missing = missing;
    a->t = 0;
    a->again = 0;
}

int ef_arms_next(ef_tree *tree, ef_arms *a)
{
    const ef_contender *c = a->c;
    if (a->again) { /* the same arm with missing values on the left */
        a->again = 0;
        for (int32_t k = 0; k < tree->width; k++)
            a->with[k] = a->left[k] + a->missing[k];
        a->cells = a->with;
        a->missing_left = 1;
        return 1;
    }
    a->cells = a->left;
    a->missing_left = 0;
    while (++a->t <= c->bins) {
        if (c->equal)
            ef_clear(tree, a->left);
        if (!ef_add_bin(tree, c, a->t, a->left))
            continue; /* no row in this bin: the same arm as the one before */
        if (c->equal || a->t < c->bins || a->some_missing) {
            a->again = a->some_missing && (c->equal || a->t < c->bins);
            return 1;
        }
    }
    return 0;
}

void ef_left_of(const ef_tree *tree, const ef_contender *c, int t, int missing_left, int64_t *to)
{
    int first = c->equal && t ? t : 1;
    ef_clear(tree, to);
    add_bins(tree, c, first, t, to);
    if (missing_left)
        add_bins(tree, c, 0, 0, to);
}

/* Whether a row of a histogram has a missing value. */
static int some_missing(const ef_tree *tree, const ef_contender *c)
{
    if (EF_IS_MSE(tree->task))
        return ((const int64_t *)tree->cells)[c->h] != 0;
    const int32_t *cells = (const int32_t *)tree->cells + c->h;
    int32_t some = 0;
    for (int32_t k = 0; k < tree->width; k++)
        some |= cells[k];
    return some != 0;
}

/* _best_threshold of criteria.py: ef_best_arm for Gini without missing values, by running sums. */
static void best_threshold(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n,
                           int64_t least)
{
    int32_t width = tree->width;
    const int32_t *cells = (const int32_t *)tree->cells + c->h;
    int64_t *left = EF_VECTOR(tree, 1);
    int64_t n_left = 0, a = 0, b = 0;
    ef_real top = 0.0;
    ef_clear(tree, left);
    for (int32_t k = 0; k < width; k++)
        b += total[k] * total[k];
    c->found = 0;
    for (int t = 1; t < c->bins; t++) {
        int64_t before = n_left;
        cells += width;
        for (int32_t k = 0; k < width; k++) {
            int64_t count = cells[k], had = left[k];
            a += count * (count + had + had);
            b += count * (count - 2 * (total[k] - had));
            left[k] = had + count;
            n_left += count;
        }
        int64_t n_right = n - n_left;
        if (n_left > before && n_left >= least && n_right >= least) {
            ef_real score = (ef_real)a / (ef_real)n_left + (ef_real)b / (ef_real)n_right;
            if (score > top) {
                top = score;
                c->found = 1;
                c->score = score;
                c->bin = (uint8_t)t;
                c->missing_left = 0;
            }
        }
    }
}

/* ef_best_arm for squared errors of numbers without missing values, by running sums. */
static void best_cut(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n, int64_t least)
{
    const int64_t *cells = (const int64_t *)tree->cells + c->h;
    int64_t left[2] = {0, 0};
    ef_real top = -1;
    int best = 0;
    for (int t = 1; t < c->bins; t++) { /* no branch; an empty bin has the score of the one before */
        cells += tree->width;
        left[0] += cells[0];
        left[1] += cells[1];
        ef_real score = ef_mse_score(left, total, left[0], n - left[0]); /* NaN if a side is empty */
        int better = (score > top) & (left[0] >= least) & (n - left[0] >= least);
        top = better ? score : top;
        best = better ? t : best;
    }
    c->found = best != 0;
    c->score = top;
    c->bin = (uint8_t)best;
    c->missing_left = 0;
}

void ef_best_arm(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n, int64_t least)
{
    const ef_task *task = tree->task;
    int64_t *left = EF_VECTOR(tree, 1), *with = EF_VECTOR(tree, 2), *missing = EF_VECTOR(tree, 3);
    ef_arms a;
#ifndef EF_BOARD
    if (tree->narrow && !EF_IS_ENTROPY(task) && !c->equal) {
        ef_sweep(tree, c, total, least);
        return;
    }
#endif
    if (!EF_IS_ENTROPY(task) && !c->equal && !EF_NARROW(tree) && !some_missing(tree, c)) {
        if (EF_IS_MSE(task))
            best_cut(tree, c, total, n, least);
        else
            best_threshold(tree, c, total, n, least);
        return;
    }
    ef_arms_begin(tree, &a, c, left, with, missing);
    c->found = 0;
    while (ef_arms_next(tree, &a)) {
        int64_t n_left = ef_rows_in(tree, a.cells);
        if (n_left < least || n - n_left < least)
            continue;
        ef_real score = ef_score(tree, a.cells, total, n_left, n - n_left);
        if (!c->found || score > c->score) {
            c->found = 1;
            c->score = score;
            c->bin = (uint8_t)a.t;
            c->missing_left = (uint8_t)a.missing_left;
        }
    }
}
