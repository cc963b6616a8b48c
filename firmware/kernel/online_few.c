/* Races of few rows. Most races are decided by some twenty rows, and their histograms would be far
 * larger than these. So the rows are listed by their bins, and counted when the race is judged. The sums
 * are whole numbers, and what is computed from them is computed as in arms.c and criteria.c: the same
 * split wins.
 *
 * A list lies where the race's histograms will be, if it lasts.
 */
#include "online.h"
#include "race.h"

#define BLOCKS 3
#define LANES (4 * BLOCKS) /* features that are counted together */
#define MOST_ROWS 120
#define MOST_FEATURES 64
#define MOST_SUM 255 /* rows, each as often as it counts: less than 2^24 to the power of three */
#define SHIFT 40
#define NEARLY 0.99999f /* of a score: floats are that exact, and more */

typedef struct {
    uint16_t *labels;
    uint8_t *times, *bins; /* `some` bins of each row */
    size_t some;
    int n;
} ef_list;

static ef_list list_of(const ef_grove *g, int slot)
{
    const ef_plan *p = &g->plan;
    ef_list list;
    list.some = (size_t)p->max_features;
    size_t cells = list.some * (size_t)p->stride * ef_cells_of(p) * ef_cell_bytes(p);
    list.labels = (uint16_t *)(void *)((unsigned char *)g->cells + (size_t)slot * cells);
    list.times = (uint8_t *)(list.labels + g->room);
    list.bins = list.times + g->room;
    list.n = g->slots[slot].listed;
    return list;
}

int32_t ef_few_room(const ef_plan *p)
{
    size_t some = (size_t)p->max_features, room;
    if (p->criterion == EF_ENTROPY || p->width > EF_FEW_CLASSES || p->n_bins > EF_FEW_BINS ||
        some > MOST_FEATURES)
        return 0;
#ifndef __GNUC__
    if (p->width)
        return 0;
#endif
    room = some * (size_t)p->stride * ef_cells_of(p) * ef_cell_bytes(p) / (some + 3);
    return room < MOST_ROWS ? (int32_t)room : MOST_ROWS;
}

int ef_few_add(ef_grove *g, int slot, const float *x, uint32_t label, uint32_t times)
{
    ef_live *race = g->slots + slot;
    const ef_list list = list_of(g, slot);
    uint8_t *bins = list.bins + (size_t)list.n * list.some;
    if (list.n == g->room)
        return 0;
    ef_find_bins(g, slot, x, bins);
    if (g->some_missing && memchr(bins, 0, race->n))
        return 0;
    list.labels[list.n] = (uint16_t)label;
    list.times[list.n] = (uint8_t)times;
    race->listed++;
    return 1;
}

void ef_few_histogram(const ef_grove *g, int slot, size_t i, void *to)
{
    const ef_list list = list_of(g, slot);
    size_t width = ef_cells_of(&g->plan), bins = (size_t)g->slots[slot].cuts + 2;
    memset(to, 0, bins * width * ef_cell_bytes(&g->plan));
    for (int k = 0; k < list.n; k++) {
        size_t at = list.bins[(size_t)k * list.some + i] * width;
        if (g->plan.width)
            ((int32_t *)to)[at + list.labels[k]] += list.times[k];
        else
            ef_add_target((int64_t *)to + at, list.labels[k], list.times[k]);
    }
}

void ef_few_unlist(ef_grove *g, int slot)
{
    unsigned char copy[MOST_ROWS * (MOST_FEATURES + 3)]; /* histograms overwrite the list */
    ef_live *race = g->slots + slot;
    ef_list list = list_of(g, slot);
    memcpy(copy, list.labels, (size_t)g->room * (list.some + 3));
    race->listed = NONE;
    ef_clear_cells(g, slot);
    const uint8_t *times = copy + 2 * (size_t)g->room, *bins = times + g->room;
    for (int k = 0; k < list.n; k++, bins += list.some) {
        uint16_t label;
        memcpy(&label, copy + 2 * (size_t)k, sizeof label);
        ef_count_bins(g, slot, bins, label, times[k]);
    }
}

/* ---- Classes, by Gini ---- */

#ifdef __GNUC__

/* Of LANES features: rows by bin and class; sums of squares and rows on the left, for the arm after each
 * bin; and its score, not quite. All but the scores are whole numbers below 2^24, which a float holds. */
typedef struct {
    float cells[(EF_FEW_BINS + 1) * EF_FEW_CLASSES * LANES];
    float a[EF_FEW_BINS][LANES], b[EF_FEW_BINS][LANES], n[EF_FEW_BINS][LANES];
    ef_four about[EF_FEW_BINS][BLOCKS], top[BLOCKS];
} ef_sides;

/* Count the rows by some features, from one on. */
static void count_classes(const ef_list *list, size_t from, size_t lanes, size_t width, float *cells)
{
    size_t step = width * LANES;
    for (int i = 0; i < list->n; i++) {
        const uint8_t *bins = list->bins + (size_t)i * list->some + from;
        float *cell = cells + list->labels[i] * (size_t)LANES, times = (float)list->times[i];
        for (size_t l = 0; l < lanes; l++)
            cell[bins[l] * step + l] += times;
    }
}

/* Sum up the sides of the arms of four features, and estimate their scores. */
static void sum_sides(ef_sides *s, int block, int cuts, const float *total, int width, float size,
                      float least)
{
    const ef_four none = {-1, -1, -1, -1}, zero = {0, 0, 0, 0};
    ef_four left[EF_FEW_CLASSES], top = none;
    for (int k = 0; k < width; k++)
        left[k] = zero;
    for (int t = 1; t <= cuts; t++) {
        const float *cells = s->cells + (size_t)t * (size_t)width * LANES + 4 * block;
        ef_four a = zero, b = zero, n = zero;
        for (int k = 0; k < width; k++, cells += LANES) {
            ef_four c = left[k] + ef_load(cells), r = total[k] - c;
            left[k] = c;
            n += c;
            a += c * c;
            b += r * r;
        }
        ef_four right = size - n, about = (a * right + b * n) / (n * right);
        about = ef_where((n >= least) & (right >= least), about, none);
        top = ef_where(about > top, about, top);
        memcpy(s->a[t] + 4 * block, &a, sizeof a);
        memcpy(s->b[t] + 4 * block, &b, sizeof b);
        memcpy(s->n[t] + 4 * block, &n, sizeof n);
        s->about[t][block] = about;
    }
    s->top[block] = top;
}

/* The arms whose score may be the highest: a bit for each. */
static ef_mask find_close(const ef_sides *s, int block, int cuts)
{
    const ef_mask one = {1, 1, 1, 1};
    ef_mask close = {0, 0, 0, 0};
    ef_four limit = s->top[block] * NEARLY;
    for (int t = 1; t <= cuts; t++)
        close |= (s->about[t][block] >= limit) & (one << t);
    return close & (s->top[block] > 0.0f);
}

/* The gain of a lane's best arm, as ef_best estimates it; `close` has a bit for those to compare. */
static ef_real best_of(const ef_sides *s, size_t l, uint32_t close, ef_real size, ef_real squares,
                       ef_real rest, int *bin)
{
    ef_real most = 0.0;
    for (; close; close &= close - 1) {
        int t = __builtin_ctz(close);
        ef_real n = (ef_real)s->n[t][l];
        ef_real score = (ef_real)s->a[t][l] / n + (ef_real)s->b[t][l] / (size - n);
        if (score > most) {
            most = score;
            *bin = t;
        }
    }
    ef_real left = (ef_real)s->n[*bin][l], right = size - left;
    ef_real on_left = (ef_real)s->a[*bin][l] / (left * left);
    ef_real on_right = (ef_real)s->b[*bin][l] / (right * right);
    ef_real bias = 1 - on_left - on_right + squares;
    return (left * on_left + right * on_right) / size - squares - bias * rest;
}

static void best_by_class(ef_grove *g, int slot, const ef_list *list, int64_t size, ef_real rest)
{
    const ef_live *race = g->slots + slot;
    const int64_t *sums = EF_TOTAL(&g->tree);
    int width = g->plan.width;
    float total[EF_FEW_CLASSES], least = g->plan.least > size ? (float)size : (float)g->plan.least;
    int64_t squares = 0;
    for (int k = 0; k < width; k++) {
        total[k] = (float)sums[k];
        squares += sums[k] * sums[k];
    }
    ef_real share = (ef_real)squares / (ef_real)(size * size);
    for (size_t at = 0; at < race->n; at += LANES) {
        ef_sides s;
        size_t lanes = race->n - at < LANES ? race->n - at : LANES;
        memset(s.cells, 0, ((size_t)race->cuts + 2) * (size_t)width * LANES * sizeof *s.cells);
        count_classes(list, at, lanes, (size_t)width, s.cells);
        for (size_t first = 0; first < lanes; first += 4) {
            sum_sides(&s, (int)first / 4, race->cuts, total, width, (float)size, least);
            ef_mask close = find_close(&s, (int)first / 4, race->cuts);
            for (size_t l = first; l < lanes && l < first + 4; l++) {
                int bin = 0;
                if (close[l - first])
                    g->gains[at + l] = best_of(&s, l, (uint32_t)close[l - first], (ef_real)size, share,
                                               rest, &bin);
                g->arms[at + l] = (uint16_t)bin;
            }
        }
    }
}

#else
static void best_by_class(ef_grove *g, int slot, const ef_list *list, int64_t size, ef_real rest)
{
    (void)g, (void)slot, (void)list, (void)size, (void)rest; /* classes are never listed */
}
#endif

/* ---- Numbers ---- */

/* Two sums of some rows: their number above SHIFT bits of their targets; and the squares of these. */
typedef struct {
    int64_t both, squares;
} ef_pair;

static void count_targets(const ef_list *list, size_t from, size_t lanes, ef_pair *pairs)
{
    for (int i = 0; i < list->n; i++) {
        const uint8_t *bins = list->bins + (size_t)i * list->some + from;
        int64_t times = list->times[i], sum = times * list->labels[i];
        int64_t both = times * ((int64_t)1 << SHIFT) + sum, square = sum * list->labels[i];
        for (size_t l = 0; l < lanes; l++) {
            ef_pair *pair = pairs + l * (EF_FEW_BINS + 1) + bins[l];
            pair->both += both;
            pair->squares += square;
        }
    }
}

/* The two sums of a pair: rows, and their targets. */
static inline void part(int64_t both, int64_t *to)
{
    to[0] = both >> SHIFT;
    to[1] = both & (((int64_t)1 << SHIFT) - 1);
}

/* The sums of the left side of a feature's best arm; returns its bin, 0 if there is none. `pairs` are summed
 * up. Scores are estimated first, and those computed that may be the highest: divisions take long. */
static int best_cut_of(ef_pair *pairs, int cuts, const int64_t *total, int64_t least, int64_t *best)
{
    float about[EF_FEW_BINS], top = -1.0f;
    ef_real most = -1;
    int bin = 0;
    for (int t = 1; t <= cuts; t++) { /* no branch */
        int64_t left[2];
        pairs[t].both += pairs[t - 1].both;
        pairs[t].squares += pairs[t - 1].squares;
        part(pairs[t].both, left);
        int64_t right = total[0] - left[0];
        float d = (float)(left[1] * total[0] - total[1] * left[0]);
        float score = d * d / (float)(left[0] * right); /* NaN if a side is empty */
        score = (left[0] >= least) & (right >= least) ? score : -1.0f;
        about[t - 1] = score;
        top = score > top ? score : top;
    }
    for (int t = 1; top >= 0.0f && t <= cuts; t++) {
        int64_t left[2];
        if (about[t - 1] < top * NEARLY)
            continue;
        part(pairs[t].both, left);
        ef_real score = ef_mse_score(left, total, left[0], total[0] - left[0]);
        if (score > most) {
            most = score;
            bin = t;
        }
    }
    part(pairs[bin].both, best);
    best[2] = pairs[bin].squares;
    return bin;
}

static void best_by_number(ef_grove *g, int slot, const ef_list *list, ef_real rest)
{
    const ef_live *race = g->slots + slot;
    const int64_t *total = EF_TOTAL(&g->tree);
    for (size_t at = 0; at < race->n; at += LANES) {
        ef_pair pairs[LANES * (EF_FEW_BINS + 1)];
        size_t lanes = race->n - at < LANES ? race->n - at : LANES;
        memset(pairs, 0, lanes * (EF_FEW_BINS + 1) * sizeof *pairs);
        count_targets(list, at, lanes, pairs);
        for (size_t l = 0; l < lanes; l++) {
            int64_t left[3];
            ef_real bias;
            int bin = best_cut_of(pairs + l * (EF_FEW_BINS + 1), race->cuts, total, g->plan.least, left);
            g->arms[at + l] = (uint16_t)bin;
            if (bin) {
                g->gains[at + l] = ef_describe(&g->tree, left, total, &bias, NULL, NULL);
                g->gains[at + l] -= bias * rest;
            }
        }
    }
}

int ef_few_many(const ef_grove *g, int slot)
{
    const ef_list list = list_of(g, slot);
    int sum = 0;
    if (!g->plan.width || list.n == NONE)
        return 0;
    for (int k = 0; k < list.n; k++)
        sum += list.times[k];
    return sum > MOST_SUM;
}

void ef_few_best(ef_grove *g, int slot, int64_t *size, ef_real *impurity, ef_real *rest)
{
    const ef_list list = list_of(g, slot);
    int64_t *total = EF_TOTAL(&g->tree);
    ef_clear(&g->tree, total);
    for (int k = 0; k < list.n; k++)
        if (g->plan.width)
            total[list.labels[k]] += list.times[k];
        else
            ef_add_target(total, list.labels[k], list.times[k]);
    *size = ef_rows_in(&g->tree, total);
    *impurity = ef_impurity(&g->tree, total);
    *rest = (ef_real)g->slots[slot].squares / (ef_real)(*size * *size);
    if (*impurity <= 0)
        return;
    if (g->plan.width)
        best_by_class(g, slot, &list, *size, *rest);
    else
        best_by_number(g, slot, &list, *rest);
}
