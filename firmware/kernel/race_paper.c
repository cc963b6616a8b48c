/* Algorithm 1 of the paper, to the letter: `splitter="mab-paper"`.
 *
 * Each arm has an interval around its mu, the weighted impurity of the two sides. An arm is
 * eliminated when its interval lies above another's; the last one wins, or after all rows the best.
 */
#include "race.h"

/* One side of an arm: add up each row's part in mu, and its square. */
static void add_moments(const int64_t *left, const int64_t *total, int right, ef_real *mean,
                        ef_real *square)
{
    ef_real cells[5];
    for (int k = 0; k < 5; k++)
        cells[k] = (ef_real)(right ? total[k] - left[k] : left[k]);
    ef_real m = cells[1] / cells[0];
    *mean += cells[2] - cells[1] * m;
    *square += cells[4] -
               m * (4.0 * cells[3] - m * (6.0 * cells[2] - m * (4.0 * cells[1] - m * cells[0])));
}

static void add_classes(const ef_tree *tree, const int64_t *left, const int64_t *total, int right,
                        int64_t n_side, ef_real *mean, ef_real *square)
{
    int gini = EF_IS_GINI(tree->task);
    int64_t sum = 0;
    if (gini)
        for (int32_t k = 0; k < tree->width; k++) {
            int64_t i = right ? total[k] - left[k] : left[k];
            sum += i * i;
        }
    ef_real s = (ef_real)sum / (ef_real)(n_side * n_side);
    ef_real log_side = gini ? 0.0 : ef_log(tree, n_side);
    for (int32_t k = 0; k < tree->width; k++) {
        int64_t count = right ? total[k] - left[k] : left[k];
        ef_real i = (ef_real)count, slope;
        if (gini)
            slope = s - 2.0 * i / (ef_real)n_side;
        else if (count)
            slope = (log_side - ef_log(tree, count)) * EF_LOG2E;
        else
            continue;
        *mean += i * slope;
        *square += i * slope * slope;
    }
}

/* The mu of an arm; sets the variance of one row's part in it. */
static ef_real estimate(const ef_tree *tree, const int64_t *left, const int64_t *total,
                       int64_t n_left, int64_t n_right, ef_real *variance)
{
    ef_real n = (ef_real)(n_left + n_right), mean = 0.0, square = 0.0;
    for (int right = 0; right < 2; right++)
        if (EF_IS_MSE(tree->task))
            add_moments(left, total, right, &mean, &square);
        else
            add_classes(tree, left, total, right, right ? n_right : n_left, &mean, &square);
    mean /= n;
    *variance = square / n - mean * mean;
    return EF_IS_GINI(tree->task) ? 1.0 + mean : mean;
}

/* z with an upper tail of p. */
static ef_real normal_quantile(ef_real p)
{
    ef_real t = ef_root(-2.0 * ef_ln(p));
    ef_real over = 2.515517 + t * (0.802853 + t * 0.010328);
    return t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* What a round knows: rows counted, the fewest that a side may have, z x the error of a mean. */
typedef struct {
    int64_t size, least;
    ef_real factor;
} ef_round;

/* Go on to the next arm that is not eliminated; returns its bit in `alive`, or -1 after the last. */
static int next_alive(ef_tree *tree, ef_arms *a, const ef_round *r, ef_real *mu, ef_real *half)
{
    const uint8_t *alive = a->c->alive;
    while (ef_arms_next(tree, a)) {
        int64_t n_left = ef_rows_in(tree, a->cells);
        int bit = 2 * a->t + a->missing_left;
        if (n_left < r->least || r->size - n_left < r->least)
            continue;
        if (!(alive[bit >> 3] >> (bit & 7) & 1))
            continue;
        ef_real variance;
        *mu = estimate(tree, a->cells, EF_TOTAL(tree), n_left, r->size - n_left, &variance);
        *half = r->factor * ef_root(ef_larger(0.0, variance));
        return bit;
    }
    return -1;
}

static void begin_arms(ef_tree *tree, ef_arms *a, const ef_contender *c)
{
    ef_arms_begin(tree, a, c, EF_VECTOR(tree, 1), EF_VECTOR(tree, 2), EF_VECTOR(tree, 3));
}

/* The feature with the arm of lowest mu, which is noted there; NULL if no arm is left. Sets the
 * lowest upper end of all intervals. */
static ef_contender *lowest_mu(ef_tree *tree, int n_racing, const ef_round *r, ef_real *lowest)
{
    ef_contender *best = NULL;
    ef_real mu, half;
    for (int j = 0; j < n_racing; j++) {
        ef_contender *c = tree->contenders + tree->racing[j];
        ef_arms a;
        begin_arms(tree, &a, c);
        while (next_alive(tree, &a, r, &mu, &half) >= 0) {
            if (!best || mu + half < *lowest)
                *lowest = mu + half;
            if (!best || mu < best->score) {
                best = c;
                c->score = mu;
                c->bin = (uint8_t)a.t;
                c->missing_left = (uint8_t)a.missing_left;
            }
        }
    }
    return best;
}

/* Eliminate the arms of a feature whose interval lies above `lowest`; returns how many are left. */
static int eliminate_arms(ef_tree *tree, ef_contender *c, const ef_round *r, ef_real lowest)
{
    uint8_t alive[sizeof c->alive];
    ef_real mu, half;
    int count = 0, bit;
    ef_arms a;
    memset(alive, 0, sizeof alive);
    begin_arms(tree, &a, c);
    while ((bit = next_alive(tree, &a, r, &mu, &half)) >= 0)
        if (mu - half <= lowest) {
            alive[bit >> 3] = (uint8_t)(alive[bit >> 3] | 1 << (bit & 7));
            count++;
        }
    memcpy(c->alive, alive, sizeof alive);
    return count;
}

int ef_race_paper(ef_tree *tree, int n_racing, int64_t start, int64_t n, ef_split *split)
{
    const ef_task *task = tree->task;
    int64_t seen = 0, squares = 0;
    ef_real z, rest = 0.0, lowest = 0.0;
    ef_contender *winner = NULL;
    if (task->confidence < 0.0) /* delta = 1 / (n^2 m T) */
        z = normal_quantile(0.5 / ((ef_real)n * (ef_real)n * (ef_real)n_racing *
                                   (ef_real)task->n_bins));
    else
        z = normal_quantile(0.5 * (1.0 - task->confidence));
    for (int j = 0; j < n_racing; j++)
        memset(tree->contenders[tree->racing[j]].alive, 255, 64);
    while (seen < n) {
        int64_t granted = ef_take(tree, n - seen < EF_PAPER_BATCH ? n - seen : EF_PAPER_BATCH,
                                  n_racing);
        if (granted <= 0)
            break;
        squares += ef_insert(tree, n_racing, start + seen, &granted, seen == 0);
        seen += granted;
        if (tree->stopped)
            return 0;
        ef_total_of(tree, tree->contenders + tree->racing[0]);
        ef_round r = {ef_rows_in(tree, EF_TOTAL(tree)), ef_least_rows(task, seen, n), 0.0};
        rest = (ef_real)(n - seen) / (ef_real)(n > 1 ? n - 1 : 1) * (ef_real)squares /
               (ef_real)(r.size * r.size);
        r.factor = z * ef_root(rest);
        winner = lowest_mu(tree, n_racing, &r, &lowest);
        if (!winner)
            continue;
        int kept = 0, last_arms = 0;
        for (int j = 0; j < n_racing; j++) {
            int arms = eliminate_arms(tree, tree->contenders + tree->racing[j], &r, lowest);
            if (arms) {
                tree->racing[kept++] = tree->racing[j];
                last_arms = arms;
            }
        }
        n_racing = kept;
        if (n_racing == 1 && last_arms == 1)
            break;
    }
    return winner ? ef_decide_by_cells(tree, winner, rest, split) : 0;
}
