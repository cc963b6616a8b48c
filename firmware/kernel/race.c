/* The race: the rounds of MABSplit at one node. `race` of core_pure.py and what it calls.
 *
 * Each round counts a batch of rows and drops the features that cannot win any more. The race ends
 * when no other split can be better than the leader's by more than the tolerance.
 */
#include "race.h"

/* How much of the noise in a gain lies along one axis: see `axis` of intervals.py. */
static ef_real axis(const ef_tree *tree, const int64_t *total)
{
    if (EF_IS_MSE(tree->task))
        return 1;
    int64_t n = ef_rows_in(tree, total), squares = 0;
    int present = 0;
    for (int32_t k = 0; k < tree->width; k++) {
        squares += total[k] * total[k];
        present += total[k] > 0;
    }
    if (present < 3)
        return 1;
    if (EF_IS_ENTROPY(tree->task))
        return 1 / (ef_real)(present - 1);
    ef_real top = 0, whole = (ef_real)(n * n - squares);
    for (int32_t k = 0; k < tree->width; k++) {
        int64_t c = total[k];
        top += (ef_real)(c * c) * (ef_real)((n - c) * (n - c) + squares - c * c);
    }
    return top / (whole * whole);
}

/* How much the gain of an arm varies, given the influences of a row. `right` is overwritten. */
static ef_real variance_of(const ef_tree *tree, ef_real gain, const int64_t *left, int64_t *right,
                           ef_real rest, const ef_real *on_left, const ef_real *on_right)
{
    const int64_t *total = EF_TOTAL(tree);
    for (int32_t k = 0; k < tree->width; k++)
        right[k] = total[k] - left[k];
    ef_real sum = ef_scatter(tree, left, total, on_left, NULL);
    sum += ef_scatter(tree, right, total, on_right, NULL);
    return ef_larger(0.0, sum / (ef_real)ef_rows_in(tree, total) - gain * gain) * rest;
}

/* The interval of one arm, and the influences of a row on either side. `right` is overwritten. */
static ef_interval interval_of(ef_tree *tree, const int64_t *left, int64_t *right, ef_real rest,
                               ef_real along, ef_real *on_left, ef_real *on_right)
{
    ef_interval i;
    ef_real bias, gain = ef_describe(tree, left, EF_TOTAL(tree), &bias, on_left, on_right);
    bias *= rest;
    i.plain = gain;
    i.gain = gain - bias;
    i.variance = variance_of(tree, gain, left, right, rest, on_left, on_right);
    i.shift = (ef_real)0.5 * (bias - bias * along);
    i.root = ef_root(ef_larger(0.0, gain - i.shift));
    ef_real most = ef_larger(gain, bias);
    i.error = most > 0 ? i.variance / (4 * most) : 0;
    if (gain < EF_WEAK * bias)
        i.error = ef_larger(i.error, bias * along);
    return i;
}

/* The root that an arm needs, with its own shift, to beat the leader's gain by slack. */
static ef_real to_beat(const ef_interval *lead, ef_real slack, ef_real shift)
{
    return ef_root(ef_larger(0.0, lead->root * lead->root - lead->shift + shift) + slack);
}

/* Whether an arm may beat the leader's, and 0, by more than slack. `shared` is the part of their errors
 * that is the same. */
static int may_beat(const ef_task *task, const ef_interval *one, const ef_interval *lead,
                    ef_real slack, ef_real shared)
{
    ef_real error = ef_larger(0.0, one->error + lead->error - shared);
    return one->root + task->z * ef_root(error) > to_beat(lead, slack, one->shift) &&
           one->root + task->z * ef_root(one->error) > ef_root(ef_larger(0.0, one->shift) + slack);
}

/* The gain of a feature's best arm, and how sure that is. */
static void measure(ef_tree *tree, ef_contender *c, ef_real rest, ef_real along)
{
    int64_t *left = EF_VECTOR(tree, 1);
    ef_left_of(tree, c, c->bin, c->missing_left, left);
    c->interval = interval_of(tree, left, EF_VECTOR(tree, 2), rest, along, tree->influences,
                              tree->influences + tree->width);
    c->gain = c->interval.gain;
    c->variance = c->interval.variance;
}

/* Whether another arm of the leading feature may still beat its best by more than slack. */
static int better_threshold(ef_tree *tree, const ef_contender *c, ef_real rest, ef_real along,
                            ef_real slack)
{
    const ef_task *task = tree->task;
    const ef_interval *lead = &c->interval;
    int32_t width = tree->width;
    const int64_t *total = EF_TOTAL(tree);
    int64_t *left = EF_VECTOR(tree, 1), *with = EF_VECTOR(tree, 2), *missing = EF_VECTOR(tree, 3);
    int64_t *best = EF_VECTOR(tree, 4), *both = EF_VECTOR(tree, 5), *cells = EF_VECTOR(tree, 6);
    ef_real *on_left = tree->influences, *on_right = on_left + width;
    ef_real *lead_left = on_right + width, *lead_right = lead_left + width;
    int64_t n = ef_rows_in(tree, total);
    ef_real size = (ef_real)n, bias;
    ef_real near = to_beat(lead, slack, lead->shift) - 2 * task->z * ef_root(lead->error);
    near = near > 0 ? near * near + lead->shift - lead->plain : -EF_HUGE;
    ef_left_of(tree, c, c->bin, c->missing_left, best);
    ef_describe(tree, best, total, &bias, lead_left, lead_right);
    ef_arms a;
    ef_arms_begin(tree, &a, c, left, with, missing);
    while (ef_arms_next(tree, &a)) {
        int64_t n_left = ef_rows_in(tree, a.cells);
        if (n_left == 0 || n_left == n || (a.t == c->bin && a.missing_left == c->missing_left))
            continue;
        ef_real gap = ef_score(tree, a.cells, total, n_left, n - n_left) - c->score;
        if (gap * ef_per_score(task, n) <= near)
            continue;
        ef_interval i = interval_of(tree, a.cells, cells, rest, along, on_left, on_right);
        /* The four groups of rows, by the sides that the two arms send them to. */
        int t = c->equal && a.t != c->bin ? 0 : a.t;
        ef_left_of(tree, c, t < c->bin ? t : c->bin, a.missing_left && c->missing_left, both);
        ef_real sum = ef_scatter(tree, both, total, on_left, lead_left);
        for (int32_t k = 0; k < width; k++)
            cells[k] = a.cells[k] - both[k];
        sum += ef_scatter(tree, cells, total, on_left, lead_right);
        for (int32_t k = 0; k < width; k++)
            cells[k] = best[k] - both[k];
        sum += ef_scatter(tree, cells, total, on_right, lead_left);
        for (int32_t k = 0; k < width; k++)
            cells[k] = total[k] - a.cells[k] - cells[k];
        sum += ef_scatter(tree, cells, total, on_right, lead_right);
        gap = i.plain - lead->plain;
        ef_real apart = ef_larger(0.0, sum / size - gap * gap) * rest;
        ef_real scale = ef_root(i.variance * lead->variance), shared = 0;
        if (scale > 0)
            shared = (i.variance + lead->variance - apart) / scale * ef_root(i.error * lead->error);
        if (may_beat(task, &i, lead, slack, shared))
            return 1;
    }
    return 0;
}

int ef_decide(ef_tree *tree, const ef_contender *lead, ef_real rest, int some_missing,
              ef_split *split)
{
    const ef_task *task = tree->task;
    const int64_t *total = EF_TOTAL(tree), *left = EF_VECTOR(tree, 1);
    ef_real bias;
    ef_real gain = ef_describe(tree, left, total, &bias, tree->influences,
                              tree->influences + tree->width);
    gain = ef_larger(0.0, gain - bias * rest);
    split->missing_left = lead->missing_left;
    if (!some_missing) /* no value was missing: one that is joins the larger side */
        split->missing_left = task->raw || 2 * ef_rows_in(tree, left) > ef_rows_in(tree, total);
    if (tree->width == 5 && EF_IS_MSE(task))
        gain *= 1024; /* back to squared levels */
    split->feature = lead->feature;
    split->code = lead->cuts[lead->bin];
    split->equal = lead->equal;
    split->gain = gain;
    return 1;
}

int ef_decide_by_cells(ef_tree *tree, const ef_contender *lead, ef_real rest, ef_split *split)
{
    int64_t *missing = EF_VECTOR(tree, 2);
    ef_clear(tree, missing);
    int some_missing = ef_add_bin(tree, lead, 0, missing);
    ef_left_of(tree, lead, lead->bin, lead->missing_left, EF_VECTOR(tree, 1));
    return ef_decide(tree, lead, rest, some_missing, split);
}

/* Number the classes that occur in the node: the others take no part. */
static void number_classes(ef_tree *tree, int64_t start, int64_t end)
{
    const ef_task *task = tree->task;
    tree->width = task->width;
    tree->map = NULL;
    if (EF_IS_MSE(task) || task->width < 3 || end - start > EF_LARGE)
        return;
    uint16_t *map = tree->numbers;
    memset(map, 255, (size_t)task->width * sizeof *map);
    for (int64_t i = start; i < end; i++)
        map[ef_label_at(tree, i)] = 0;
    int32_t width = 0;
    for (int32_t k = 0; k < task->width; k++) /* in order: sums of floats depend on it */
        if (map[k] == 0)
            map[k] = (uint16_t)width++;
    tree->width = width;
    tree->map = map;
}

/* Whether the cells of this node's histograms may be narrow: the sums of all rows fit in 16 bits, and of a
 * regression, whose squares have no room, all will be counted. Returns how many cells a bin has, or 0. */
static uint8_t narrow_cells(const ef_tree *tree, int64_t start, int64_t end)
{
    const ef_task *task = tree->task;
    int64_t n = end - start, most = n < tree->wanted ? tree->wanted : n, size = 0;
    if (EF_IS_SMALL || n > EF_NARROW_MOST || EF_IS_PAPER(task))
        return 0;
    if (EF_IS_MSE(task) && (n > EF_EXACT_BELOW || (tree->limited && n > EF_GROUP_ROWS) ||
                            (tree->left >= 0 && tree->left < most * task->max_features)))
        return 0;
    for (int64_t i = start; i < end; i++)
        size += ef_times_at(tree, i);
    if (size > EF_NARROW_MOST)
        return 0;
    if (EF_IS_MSE(task))
        return 1;
    return tree->width <= 8 ? 8 : tree->width <= 16 ? 16 : tree->width <= 32 ? 32 : 0;
}

/* The state of a race between two rounds. */
typedef struct {
    int64_t start, n;      /* the node's rows */
    int64_t most, batch;   /* rows that may be counted, in all and in the next round */
    int64_t seen, squares; /* rows counted so far, and the sum of their squared times */
    ef_real rest; /* variance of the mean of the rows counted / variance of one; 0 if all are */
    int n_racing;
} ef_rounds;

/* How many rows the race may count, in all and in its first round; 0 if the budget forbids it. */
static int plan_rounds(const ef_tree *tree, ef_rounds *r)
{
    const ef_task *task = tree->task;
    r->batch = r->most = r->n;
    if (task->splitter != EF_MAB) /* exact or nothing */
        return tree->left < 0 || tree->left >= r->n * r->n_racing;
    int64_t wanted = tree->wanted * r->n_racing;
    if (tree->left >= 0 && wanted > tree->left) { /* not enough for all: each race gets its share */
        r->most = EF_RACE_ROWS * tree->left / wanted;
        r->most = r->most < EF_LEAST_ROWS ? EF_LEAST_ROWS : r->most;
        r->most = r->most < r->n ? r->most : r->n;
    }
    r->batch = r->n <= EF_EXACT_BELOW || r->most < task->batch ? r->most : task->batch;
    return 1;
}

/* Count the next batch, find the best arm of each feature, and drop features that have none. Returns
 * how many rows were counted, or -1 if the race ends without a split. */
static int64_t count_round(ef_tree *tree, ef_rounds *r)
{
    const int64_t *total = EF_TOTAL(tree);
    int64_t room = r->most - r->seen;
    int64_t granted = ef_take(tree, r->batch < room ? r->batch : room, r->n_racing);
    if (granted > 0) {
        r->squares += ef_insert(tree, r->n_racing, r->start + r->seen, &granted, r->seen == 0);
        r->seen += granted;
        if (tree->stopped)
            return -1;
    } else if (r->seen == 0) {
        return -1;
    }
    ef_total_of(tree, tree->contenders + tree->racing[0]);
    int64_t size = ef_rows_in(tree, total);
    r->rest = 0.0;
    if (r->seen < r->n)
        r->rest = (ef_real)(r->n - r->seen) / (ef_real)(r->n - 1) * (ef_real)r->squares /
                  (ef_real)(size * size);
    if (granted > 0) {
        int64_t least = ef_least_rows(tree->task, r->seen, r->n);
        for (int j = 0; j < r->n_racing; j++)
            ef_best_arm(tree, tree->contenders + tree->racing[j], total, size, least);
    }
    int kept = 0;
    for (int j = 0; j < r->n_racing; j++)
        if (tree->contenders[tree->racing[j]].found)
            tree->racing[kept++] = tree->racing[j];
    r->n_racing = kept;
    return kept ? granted : -1;
}

/* The feature of highest score. */
static ef_contender *highest_score(ef_tree *tree, int n_racing)
{
    ef_contender *lead = tree->contenders + tree->racing[0];
    for (int j = 1; j < n_racing; j++)
        if (tree->contenders[tree->racing[j]].score > lead->score)
            lead = tree->contenders + tree->racing[j];
    return lead;
}

/* How many of the rows that were counted are not of the largest class. */
static int64_t others(const ef_tree *tree)
{
    const int64_t *total = EF_TOTAL(tree);
    int64_t most = 0;
    for (int32_t k = 0; k < tree->width; k++)
        most = total[k] > most ? total[k] : most;
    return ef_rows_in(tree, total) - most;
}

/* Eliminate the features that cannot beat the leader by more than the tolerance. Sets the leader;
 * returns whether the race is decided. */
static int eliminate(ef_tree *tree, ef_rounds *r, ef_contender **leader)
{
    const ef_task *task = tree->task;
    ef_contender *lead = tree->contenders + tree->racing[0];
    ef_real impurity = ef_impurity(tree, EF_TOTAL(tree)), along = axis(tree, EF_TOTAL(tree));
    for (int j = 0; j < r->n_racing; j++) {
        ef_contender *c = tree->contenders + tree->racing[j];
        measure(tree, c, r->rest, along);
        if (c->gain > lead->gain)
            lead = c;
    }
    *leader = lead;
    ef_real slack = ef_larger(task->tolerance * lead->gain, (ef_real)EF_TOLERANCE_IMPURITY * impurity);
    if (!(impurity > 0) || (!EF_IS_MSE(task) && others(tree) < EF_LEAST_OTHERS))
        return 0; /* what sets a rare class apart shows only in rows of it */
    int kept = 0;
    for (int j = 0; j < r->n_racing; j++) {
        const ef_contender *c = tree->contenders + tree->racing[j];
        if (c == lead || may_beat(task, &c->interval, &lead->interval, slack, 0))
            tree->racing[kept++] = tree->racing[j];
    }
    r->n_racing = kept;
    return kept == 1 && !better_threshold(tree, lead, r->rest, along, slack);
}

int ef_race(ef_tree *tree, int64_t start, int64_t end, ef_split *split)
{
    const ef_task *task = tree->task;
    ef_rounds r = {start, end - start, 0, 0, 0, 0, 0.0, 0};
    number_classes(tree, start, end);
    tree->whole = 0;
    tree->narrow = narrow_cells(tree, start, end);
    if (r.n <= EF_GROUP_ROWS && !EF_IS_PAPER(task) &&
        (tree->left < 0 || tree->wanted * task->max_features <= tree->left))
        return ef_race_small(tree, start, r.n, split);
    r.n_racing = ef_contenders(tree, start, r.n);
    if (r.n_racing == 0)
        return 0;
    if (EF_IS_PAPER(task))
        return ef_race_paper(tree, r.n_racing, start, r.n, split);
    if (!plan_rounds(tree, &r))
        return 0;
    tree->whole = r.batch == r.n && !tree->limited &&
                  (tree->left < 0 || tree->left >= r.n * r.n_racing);
    ef_contender *lead;
    for (;;) {
        int64_t counted = count_round(tree, &r);
        if (counted < 0)
            return 0;
        if (r.seen == r.most || counted == 0) {
            lead = highest_score(tree, r.n_racing);
            break;
        }
        if (eliminate(tree, &r, &lead))
            break;
        r.batch = r.seen >> 1 > task->batch ? r.seen >> 1 : task->batch;
    }
    ef_decide_by_cells(tree, lead, r.rest, split);
    if (r.n > EF_LARGE && !task->extra)
        ef_second_look(tree, lead, start, r.seen, r.n, r.rest, split);
    return 1;
}

/* ---- For races whose rows come one by one: online_race.c ---- */

int64_t ef_sum_up(ef_tree *tree, const ef_contender *c, ef_real *its_impurity)
{
    ef_total_of(tree, c);
    *its_impurity = ef_impurity(tree, EF_TOTAL(tree));
    return ef_rows_in(tree, EF_TOTAL(tree));
}

int ef_best(ef_tree *tree, ef_contender *c, int64_t n, int64_t least, ef_real rest)
{
    int64_t *left = EF_VECTOR(tree, 1);
    ef_real bias;
    ef_best_arm(tree, c, EF_TOTAL(tree), n, least);
    if (c->found) {
        ef_left_of(tree, c, c->bin, c->missing_left, left);
        c->gain = ef_describe(tree, left, EF_TOTAL(tree), &bias, NULL, NULL);
        c->gain -= bias * rest;
    }
    return c->found;
}

ef_real ef_variance(ef_tree *tree, const ef_contender *c, ef_real rest)
{
    int64_t *left = EF_VECTOR(tree, 1);
    ef_real bias, *on_left = tree->influences, *on_right = on_left + tree->width;
    ef_left_of(tree, c, c->bin, c->missing_left, left);
    ef_real gain = ef_describe(tree, left, EF_TOTAL(tree), &bias, on_left, on_right);
    return variance_of(tree, gain, left, EF_VECTOR(tree, 2), rest, on_left, on_right);
}

int ef_weigh_sides(ef_tree *tree, const ef_contender *c, int64_t *size, int64_t *on_left)
{
    int64_t *left = EF_VECTOR(tree, 1), *missing = EF_VECTOR(tree, 2);
    ef_clear(tree, missing);
    int some_missing = ef_add_bin(tree, c, 0, missing);
    ef_left_of(tree, c, c->bin, c->missing_left, left);
    *size = ef_rows_in(tree, EF_TOTAL(tree));
    *on_left = ef_rows_in(tree, left);
    return some_missing ? c->missing_left : -1;
}
