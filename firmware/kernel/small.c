/* Small nodes: all rows are counted, one feature after the other. */
#include "race.h"

/* Find the best arm of a feature by a histogram. */
static void best_by_cells(ef_tree *tree, ef_contender *c, const ef_row *rows, int n,
                          const ef_piece *piece, int64_t size)
{
    ef_order order;
    ef_sort_codes(&order, c->head, n);
    ef_make_bins(tree, c, &order, 1, n);
    c->h = c == tree->contenders ? 0 : tree->most_bins * ef_stride(tree);
    ef_zero_cells(tree, c->h, (size_t)c->bins + 1);
    ef_count(tree, c, rows, n, piece, 1);
    ef_best_arm(tree, c, EF_TOTAL(tree), size, tree->task->min_samples_leaf);
}

/* The sums of the node, from its rows. */
static void sum_up(ef_tree *tree, int n, const ef_piece *piece, int64_t *total)
{
    ef_clear(tree, total);
    for (int i = 0; i < n; i++)
        if (EF_NARROW(tree) && EF_IS_MSE(tree->task)) {
            total[0] += piece->moments[i] >> EF_ROWS_AT;
            total[1] += piece->moments[i] & (((int64_t)1 << EF_ROWS_AT) - 1);
        } else if (EF_IS_MSE(tree->task)) {
            for (int k = 0; k < tree->width; k++)
                total[k] += piece->moments[k * EF_PIECE + i];
        } else {
            total[piece->labels[i]] += piece->times[i];
        }
}

/* Nodes.race_small */
int ef_race_small(ef_tree *tree, int64_t start, int64_t n_rows, ef_split *split)
{
    const ef_task *task = tree->task;
    const ef_row *rows = tree->rows + start;
    ef_contender *best = NULL, *c = tree->contenders, *other = tree->contenders + 1;
    int n = (int)n_rows;
    int32_t drawn = 0, chosen = 0;
    int64_t *total = EF_TOTAL(tree);
    ef_piece piece;
    ef_look_up(tree, rows, EF_NOTES(tree, start), n, &piece);
    sum_up(tree, n, &piece, total);
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
        best_by_cells(tree, c, rows, n, &piece, size);
        if (c->found && (!best || c->score > best->score)) {
            ef_contender *unused = best ? best : other;
            best = c;
            c = unused;
            if (n == 2 || best->score >= perfect)
                break;
        }
    }
    tree->work += (int64_t)n * drawn;
    return best && ef_decide_by_cells(tree, best, 0.0, split);
}
