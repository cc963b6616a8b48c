/* What the parts of a race share.
 *
 *   criteria.c    what a split gains, from the sums of its two sides
 *   arms.c        every way to split by a histogram, and the best of them
 *   sweep.c       the best of them where sums are small, many at once
 *   bins.c        which features race, and how their codes are grouped into bins
 *   count.c       rows are counted into histograms, as far as the budget goes
 *   small.c       nodes of at most EF_GROUP_ROWS rows
 *   second_look.c in a large node, every code near the winning threshold
 *   race.c        the rounds of MABSplit, until a split is good enough
 *   race_paper.c  Algorithm 1 of the paper
 */
#ifndef EF_RACE_H
#define EF_RACE_H

#include "internal.h"

#define EF_LOG2E ((ef_real)1.4426950408889634)

/* Vectors of `width` sums in the workspace. The first has the sums of the whole node. */
#define EF_TOTAL(tree) ((tree)->sums)
#define EF_VECTOR(tree, i) ((tree)->sums + (size_t)(i) * (size_t)(tree)->width)

static inline ef_real ef_larger(ef_real a, ef_real b) { return b > a ? b : a; }

static inline ef_real ef_log(const ef_tree *tree, int64_t count)
{
    return count < EF_LOGS ? tree->logs[count] : ef_ln((ef_real)count);
}

static inline void ef_clear(const ef_tree *tree, int64_t *to)
{
    memset(to, 0, (size_t)tree->width * sizeof *to);
}

/* How many rows these sums are of. */
static inline int64_t ef_rows_in(const ef_tree *tree, const int64_t *cells)
{
    if (EF_IS_MSE(tree->task))
        return cells[0];
    int64_t n = 0;
    for (int32_t k = 0; k < tree->width; k++)
        n += cells[k];
    return n;
}

/* Whether not all of these codes are the same. */
static inline int ef_varies(const uint8_t *codes, int n)
{
    uint8_t differ = 0;
    for (int k = 1; k < n; k++)
        differ = (uint8_t)(differ | (codes[k] ^ codes[0]));
    return differ != 0;
}

/* Cells of a bin. Where the sums of a node are small, they are narrow: of a class 16 bits, padded to 8, 16
 * or 32 classes, so that many are added at once; of a regression one cell has both sums, rows << EF_ROWS_AT
 * and targets. */
#define EF_NARROW(tree) (EF_IS_SMALL ? 0 : (tree)->narrow)
#define EF_NARROW_MOST 32767
#define EF_ROWS_AT 40
static inline size_t ef_stride(const ef_tree *tree)
{
    return (size_t)(EF_NARROW(tree) ? EF_NARROW(tree) : tree->width);
}

/* Set the cells of the first `bins` bins of a histogram that begins at `from` to zero. */
static inline void ef_zero_cells(ef_tree *tree, size_t from, size_t bins)
{
    size_t bytes = EF_IS_MSE(tree->task) ? sizeof(int64_t)
                   : EF_NARROW(tree)     ? sizeof(int16_t)
                                         : sizeof(int32_t);
    memset((unsigned char *)tree->cells + from * bytes, 0, bins * ef_stride(tree) * bytes);
}

/* Every way to split by a histogram, in order: see `arms` of criteria.py. */
typedef struct {
    const ef_contender *c;
    int64_t *cells;         /* sums of the left side of the current arm */
    int64_t *left, *with;   /* the same without and with the missing values */
    const int64_t *missing;
    int t, missing_left, some_missing, again;
} ef_arms;

/* The distinct codes of a node's first rows, in order. */
typedef struct {
    uint8_t codes[EF_GROUP_ROWS];
    int distinct;
} ef_order;

/* Labels of some rows, or the moments of their targets, and how often each row was drawn. */
typedef struct {
    uint32_t labels[EF_PIECE], times[EF_PIECE];
    int64_t moments[EF_MOMENTS * EF_PIECE];
} ef_piece;

EF_HIDE

/* ---- criteria.c ---- */

ef_real ef_impurity(const ef_tree *tree, const int64_t *total);

/* A number that is larger the more a split gains, and its unit: gain = unit x score + constant. */
ef_real ef_score(ef_tree *tree, const int64_t *left, const int64_t *total, int64_t n_left,
                int64_t n_right);
static inline ef_real ef_mse_score(const int64_t *left, const int64_t *total, int64_t n_left,
                                   int64_t n_right)
{
    ef_real d = ((ef_real)left[1] * (ef_real)total[0] - (ef_real)total[1] * (ef_real)n_left) /
                (ef_real)total[0];
    return d * d / ((ef_real)n_left * (ef_real)n_right);
}
ef_real ef_per_score(const ef_task *task, int64_t n);

/* Returns the gain of a split. Sets bias x rows, and how much a row influences the gain if it is on
 * the left or on the right: one number a class, or one number a side for a regression; both may be
 * NULL. */
ef_real ef_describe(ef_tree *tree, const int64_t *left, const int64_t *total, ef_real *bias,
                   ef_real *on_left, ef_real *on_right);

/* Sum over the rows in `cells` of the squared difference of two influences; `two` may be NULL. */
ef_real ef_scatter(const ef_tree *tree, const int64_t *cells, const int64_t *whole,
                  const ef_real *one, const ef_real *two);

/* ---- arms.c ---- */

/* Add one bin's cells to a vector; returns whether it has any row. */
int ef_add_bin(const ef_tree *tree, const ef_contender *c, int bin, int64_t *to);

/* Sums of the whole histogram, into EF_TOTAL. */
void ef_total_of(ef_tree *tree, const ef_contender *c);

/* Sums of the left side of an arm. */
void ef_left_of(const ef_tree *tree, const ef_contender *c, int t, int missing_left, int64_t *to);

/* Go through the arms of a histogram: ef_arms_next returns 0 after the last. */
void ef_arms_begin(ef_tree *tree, ef_arms *a, const ef_contender *c, int64_t *left, int64_t *with,
                   int64_t *missing);
int ef_arms_next(ef_tree *tree, ef_arms *a);

/* Find the arm of highest score with at least `least` rows on each side. */
void ef_best_arm(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n, int64_t least);

/* The same for narrow cells and thresholds, by Gini or squared error. */
void ef_sweep(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t least);

/* ---- bins.c ---- */

void ef_sort_codes(ef_order *o, const uint8_t *codes, int n);

/* Nodes.contender: make the bins of a feature in a node of n rows, from the codes of the first ones.
 * With `all`, no other rows will be counted, so the table gets only their codes. */
void ef_make_bins(ef_tree *tree, ef_contender *c, const ef_order *o, int all, int64_t n);

/* Cut midway between every two codes, the first of which is at place `at`; evenly over them if they need
 * more bins. Returns how many cuts there are. */
int ef_cuts_between(const ef_order *o, int at, int bins, int16_t *wanted);

/* How many bins a feature has in a race of n rows: bins_for of nodes.py. */
int ef_bins_for(const ef_task *task, int64_t n);

/* Draw the next feature and get the codes of the node's first rows. `drawn` counts the features that
 * were drawn. Returns 0 when none is left. */
int ef_draw_next(ef_tree *tree, const ef_row *rows, int head, int32_t *drawn, ef_contender *c);

/* Draw all features of a race and put them in order; returns how many there are. */
int ef_contenders(ef_tree *tree, int64_t start, int64_t n);

/* ---- count.c ---- */

/* Look up some rows, of which `notes` has label and times; returns the sum of their squared times. */
int64_t ef_look_up(ef_tree *tree, const ef_row *rows, const uint32_t *notes, int n, ef_piece *piece);

/* Count some rows into one histogram. With `first`, they are the node's first rows, whose codes are
 * known. */
void ef_count(ef_tree *tree, const ef_contender *c, const ef_row *rows, int n,
              const ef_piece *piece, int first);

/* Rows that each side of an arm must have: Training.least_rows. */
static inline int64_t ef_least_rows(const ef_task *task, int64_t seen, int64_t n)
{
    int64_t least = (task->min_samples_leaf * seen + n - 1) / n;
    return least < 1 ? 1 : least;
}

/* Budget.give_back: insertions that were granted, and not made. */
static inline void ef_give_back(ef_tree *tree, int64_t insertions)
{
    tree->insertions -= insertions;
    if (tree->left >= 0)
        tree->left += insertions;
}

/* Budget.take: ask for rows of `per_row` insertions each; returns how many of them are granted. */
int64_t ef_take(ef_tree *tree, int64_t rows, int64_t per_row);

/* Count `*granted` rows from `start` on into every racing histogram; returns the sum of their
 * squared times. If the time runs out meanwhile, insertions that were not made are given back. */
int64_t ef_insert(ef_tree *tree, int n_racing, int64_t start, int64_t *granted, int first);

/* ---- race.c, small.c, race_paper.c ---- */

/* Turn the winning arm into a split; EF_VECTOR 1 has the sums of its left side. */
int ef_decide(ef_tree *tree, const ef_contender *lead, ef_real rest, int some_missing,
              ef_split *split);

/* The same for an arm that has a histogram. */
int ef_decide_by_cells(ef_tree *tree, const ef_contender *lead, ef_real rest, ef_split *split);

/* In a large node, of which `seen` rows were counted: look for a better threshold near the winner's,
 * which has made `split`. Overwrites the winner and all histograms. */
void ef_second_look(ef_tree *tree, ef_contender *lead, int64_t start, int64_t seen, int64_t n,
                    ef_real rest, ef_split *split);

/* Find the split of a small node, or by the paper's algorithm; return whether there is one. */
int ef_race_small(ef_tree *tree, int64_t start, int64_t n, ef_split *split);
int ef_race_paper(ef_tree *tree, int n_racing, int64_t start, int64_t n, ef_split *split);

EF_SHOW
#endif
