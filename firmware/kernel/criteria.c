/* Criteria: what a split gains by Gini, entropy or squared error, and how sure that is.
 *
 * Everything is computed from the sums of a histogram: rows by class, or of a regression the rows
 * and the sums of their targets and squared targets. The formulas are those of criteria.py and
 * entropy.py in edgeforest/.
 */
#include "race.h"

static ef_real squares_of(const int64_t *cells, int32_t width)
{
    int64_t s = 0;
    for (int32_t k = 0; k < width; k++)
        s += cells[k] * cells[k];
    return (ef_real)s;
}

static ef_real mse_impurity(const int64_t *cells)
{
    ef_real mean = (ef_real)cells[1] / (ef_real)cells[0];
    return ef_larger(0.0, (ef_real)cells[2] / (ef_real)cells[0] - mean * mean);
}

static ef_real xlogx(const ef_tree *tree, const int64_t *cells)
{
    ef_real total = 0.0;
    for (int32_t k = 0; k < tree->width; k++)
        if (cells[k] > 1)
            total += (ef_real)cells[k] * ef_log(tree, cells[k]);
    return total;
}

ef_real ef_impurity(const ef_tree *tree, const int64_t *total)
{
    const ef_task *task = tree->task;
    if (EF_IS_MSE(task))
        return mse_impurity(total);
    int64_t n = ef_rows_in(tree, total);
    if (EF_IS_GINI(task))
        return 1 - squares_of(total, tree->width) / (ef_real)(n * n);
    for (int32_t k = 0; k < tree->width; k++)
        if (total[k] == n) /* exactly, whatever is rounded below */
            return 0;
    return (ef_log(tree, n) - xlogx(tree, total) / (ef_real)n) * EF_LOG2E;
}

ef_real ef_score(ef_tree *tree, const int64_t *left, const int64_t *total, int64_t n_left,
                int64_t n_right)
{
    const ef_task *task = tree->task;
    if (EF_IS_MSE(task))
        return ef_mse_score(left, total, n_left, n_right);
    if (EF_IS_GINI(task)) {
        int64_t a = 0, b = 0;
        for (int32_t k = 0; k < tree->width; k++) {
            int64_t r = total[k] - left[k];
            a += left[k] * left[k];
            b += r * r;
        }
        return (ef_real)a / (ef_real)n_left + (ef_real)b / (ef_real)n_right;
    }
    ef_real on_right = 0.0;
    for (int32_t k = 0; k < tree->width; k++) {
        int64_t c = total[k] - left[k];
        if (c > 1)
            on_right += (ef_real)c * ef_log(tree, c);
    }
    return xlogx(tree, left) - (ef_real)n_left * ef_log(tree, n_left) + on_right -
           (ef_real)n_right * ef_log(tree, n_right);
}

ef_real ef_per_score(const ef_task *task, int64_t n)
{
    if (EF_IS_MSE(task))
        return 1.0;
    return (EF_IS_GINI(task) ? 1 : EF_LOG2E) / (ef_real)n;
}

/* ef_describe for each criterion. */
static ef_real describe_mse(const int64_t *left, const int64_t *total, ef_real *bias, ef_real *on_left,
                           ef_real *on_right)
{
    int64_t n = total[0], n_left = left[0], n_right = n - n_left;
    ef_real dn = (ef_real)n, dl = (ef_real)n_left, dr = (ef_real)n_right;
    int64_t right[3];
    for (int k = 0; k < 3; k++)
        right[k] = total[k] - left[k];
    ef_real d = ((ef_real)left[1] * dn - (ef_real)total[1] * dl) / dn;
    ef_real m_left = d / dl, m_right = -d / dr;
    *bias = mse_impurity(left) + mse_impurity(right) - mse_impurity(total);
    if (on_left) {
        *on_left = m_left;
        *on_right = m_right;
    }
    return (dl * m_left * m_left + dr * m_right * m_right) / dn;
}

static ef_real describe_gini(const ef_tree *tree, const int64_t *left, const int64_t *total,
                            ef_real *bias, ef_real *on_left, ef_real *on_right)
{
    int32_t width = tree->width;
    int64_t n = ef_rows_in(tree, total), n_left = ef_rows_in(tree, left), n_right = n - n_left;
    ef_real dn = (ef_real)n, dl = (ef_real)n_left, dr = (ef_real)n_right;
    int64_t a = 0, b = 0;
    for (int32_t k = 0; k < width; k++) {
        int64_t r = total[k] - left[k];
        a += left[k] * left[k];
        b += r * r;
    }
    ef_real s = squares_of(total, width) / (ef_real)(n * n);
    ef_real s_left = (ef_real)a / (ef_real)(n_left * n_left);
    ef_real s_right = (ef_real)b / (ef_real)(n_right * n_right);
    for (int32_t k = 0; on_left && k < width; k++) {
        ef_real share = (ef_real)total[k] / dn;
        on_left[k] = 2 * ((ef_real)left[k] / dl - share) - (s_left - s);
        on_right[k] = 2 * ((ef_real)(total[k] - left[k]) / dr - share) - (s_right - s);
    }
    *bias = 1 - s_left - s_right + s;
    return (dl * s_left + dr * s_right) / dn - s;
}

static ef_real describe_entropy(const ef_tree *tree, const int64_t *left, const int64_t *total,
                               ef_real *bias, ef_real *on_left, ef_real *on_right)
{
    int32_t width = tree->width;
    int64_t n = ef_rows_in(tree, total), n_left = ef_rows_in(tree, left), others = -1;
    ef_real gain = 0.0, log_n = ef_log(tree, n);
    for (int side = 0; side < 2; side++) {
        ef_real *influence = side ? on_right : on_left;
        ef_real log_side = ef_log(tree, side ? n - n_left : n_left);
        for (int32_t k = 0; k < width; k++) {
            int64_t i = side ? total[k] - left[k] : left[k];
            ef_real x = 0.0;
            if (i) {
                x = (ef_log(tree, i) - log_side - ef_log(tree, total[k]) + log_n) * EF_LOG2E;
                gain += (ef_real)i * x;
            }
            if (influence)
                influence[k] = x;
        }
    }
    for (int32_t k = 0; k < width; k++)
        if (total[k])
            others++;
    *bias = (ef_real)others * (ef_real)0.5 * EF_LOG2E;
    return gain / (ef_real)n;
}

ef_real ef_describe(ef_tree *tree, const int64_t *left, const int64_t *total, ef_real *bias,
                   ef_real *on_left, ef_real *on_right)
{
    if (EF_IS_MSE(tree->task))
        return describe_mse(left, total, bias, on_left, on_right);
    if (EF_IS_GINI(tree->task))
        return describe_gini(tree, left, total, bias, on_left, on_right);
    return describe_entropy(tree, left, total, bias, on_left, on_right);
}

void ef_sum_rows(const ef_tree *tree, int64_t start, int64_t end, int64_t *cells)
{
    int squared = EF_IS_MSE(tree->task);
    for (int64_t i = start; i < end; i++) {
        uint32_t times = ef_times_at(tree, i), label = ef_label_at(tree, i);
        if (squared) {
            cells[0] += times;
            cells[1] += (int64_t)times * label;
        } else {
            cells[label] += times;
        }
    }
}

ef_real ef_gain(ef_tree *tree, int64_t start, int64_t middle, int64_t end)
{
    const ef_task *task = tree->task;
    int32_t width = EF_IS_MSE(task) ? 3 : task->width, raced = tree->width;
    int64_t *total = tree->sums, *left = tree->sums + width;
    ef_real bias;
    memset(total, 0, 2 * (size_t)width * sizeof *total);
    ef_sum_rows(tree, start, middle, left);
    ef_sum_rows(tree, middle, end, total);
    for (int32_t k = 0; k < width; k++)
        total[k] += left[k];
    tree->width = width;
    ef_real gain = ef_describe(tree, left, total, &bias, tree->influences, tree->influences + width);
    tree->width = raced;
    return gain;
}

ef_real ef_scatter(const ef_tree *tree, const int64_t *cells, const int64_t *whole,
                  const ef_real *one, const ef_real *two)
{
    ef_real sum = 0.0;
    if (EF_IS_MSE(tree->task)) {
        if (cells[0] == 0)
            return 0.0;
        ef_real n = (ef_real)cells[0], other = two ? *two : 0, difference = *one - other;
        ef_real aside = 2 * ((ef_real)cells[1] / n - (ef_real)whole[1] / (ef_real)whole[0]) -
                       (*one + other);
        return n * difference * difference * (4 * mse_impurity(cells) + aside * aside);
    }
    for (int32_t k = 0; k < tree->width; k++) {
        ef_real d = two ? one[k] - two[k] : one[k];
        sum += (ef_real)cells[k] * d * d;
    }
    return sum;
}
