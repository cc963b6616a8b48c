/* Criteria: what a split gains by Gini, entropy or squared error, and how sure that is.
 *
 * Everything is computed from the sums of a histogram: rows by class, or of a regression the rows
 * and the sums of their targets and squared targets. The formulas are those of criteria.py and
 * entropy.py in edgeforest/.
 */
#include "race.h"

static double squares_of(const int64_t *cells, int32_t width)
{
    int64_t s = 0;
    for (int32_t k = 0; k < width; k++)
        s += cells[k] * cells[k];
    return (double)s;
}

static double mse_impurity(const int64_t *cells)
{
    double mean = (double)cells[1] / (double)cells[0];
    return ef_larger(0.0, (double)cells[2] / (double)cells[0] - mean * mean);
}

static double xlogx(const ef_tree *tree, const int64_t *cells)
{
    double total = 0.0;
    for (int32_t k = 0; k < tree->width; k++)
        if (cells[k] > 1)
            total += (double)cells[k] * ef_log(tree, cells[k]);
    return total;
}

double ef_impurity(const ef_tree *tree, const int64_t *total)
{
    const ef_task *task = tree->task;
    if (task->criterion == EF_MSE)
        return mse_impurity(total);
    int64_t n = ef_rows_in(tree, total);
    if (task->criterion == EF_GINI)
        return 1.0 - squares_of(total, tree->width) / (double)(n * n);
    return (ef_log(tree, n) - xlogx(tree, total) / (double)n) * EF_LOG2E;
}

double ef_score(ef_tree *tree, const int64_t *left, const int64_t *total, int64_t n_left,
                int64_t n_right)
{
    const ef_task *task = tree->task;
    if (task->criterion == EF_MSE) {
        double d = ((double)left[1] * (double)total[0] - (double)total[1] * (double)n_left) /
                   (double)total[0];
        return d * d / ((double)n_left * (double)n_right);
    }
    if (task->criterion == EF_GINI) {
        int64_t a = 0, b = 0;
        for (int32_t k = 0; k < tree->width; k++) {
            int64_t r = total[k] - left[k];
            a += left[k] * left[k];
            b += r * r;
        }
        return (double)a / (double)n_left + (double)b / (double)n_right;
    }
    double on_right = 0.0;
    for (int32_t k = 0; k < tree->width; k++) {
        int64_t c = total[k] - left[k];
        if (c > 1)
            on_right += (double)c * ef_log(tree, c);
    }
    return xlogx(tree, left) - (double)n_left * ef_log(tree, n_left) + on_right -
           (double)n_right * ef_log(tree, n_right);
}

double ef_per_score(const ef_task *task, int64_t n)
{
    if (task->criterion == EF_MSE)
        return 1.0;
    return (task->criterion == EF_GINI ? 1.0 : EF_LOG2E) / (double)n;
}

/* ef_describe for each criterion. */
static double describe_mse(const int64_t *left, const int64_t *total, double *bias, double *on_left,
                           double *on_right)
{
    int64_t n = total[0], n_left = left[0], n_right = n - n_left;
    double dn = (double)n, dl = (double)n_left, dr = (double)n_right;
    int64_t right[3];
    for (int k = 0; k < 3; k++)
        right[k] = total[k] - left[k];
    double d = ((double)left[1] * dn - (double)total[1] * dl) / dn;
    double m_left = d / dl, m_right = -d / dr;
    *bias = mse_impurity(left) + mse_impurity(right) - mse_impurity(total);
    *on_left = m_left;
    *on_right = m_right;
    return (dl * m_left * m_left + dr * m_right * m_right) / dn;
}

static double describe_gini(const ef_tree *tree, const int64_t *left, const int64_t *total,
                            double *bias, double *on_left, double *on_right)
{
    int32_t width = tree->width;
    int64_t n = ef_rows_in(tree, total), n_left = ef_rows_in(tree, left), n_right = n - n_left;
    double dn = (double)n, dl = (double)n_left, dr = (double)n_right;
    int64_t a = 0, b = 0;
    for (int32_t k = 0; k < width; k++) {
        int64_t r = total[k] - left[k];
        a += left[k] * left[k];
        b += r * r;
    }
    double s = squares_of(total, width) / (double)(n * n);
    double s_left = (double)a / (double)(n_left * n_left);
    double s_right = (double)b / (double)(n_right * n_right);
    for (int32_t k = 0; k < width; k++) {
        double share = (double)total[k] / dn;
        on_left[k] = 2.0 * ((double)left[k] / dl - share) - (s_left - s);
        on_right[k] = 2.0 * ((double)(total[k] - left[k]) / dr - share) - (s_right - s);
    }
    *bias = 1.0 - s_left - s_right + s;
    return (dl * s_left + dr * s_right) / dn - s;
}

static double describe_entropy(const ef_tree *tree, const int64_t *left, const int64_t *total,
                               double *bias, double *on_left, double *on_right)
{
    int32_t width = tree->width;
    int64_t n = ef_rows_in(tree, total), n_left = ef_rows_in(tree, left), cells = -1;
    double gain = 0.0, log_n = ef_log(tree, n);
    for (int side = 0; side < 2; side++) {
        double *influence = side ? on_right : on_left;
        double log_side = ef_log(tree, side ? n - n_left : n_left);
        for (int32_t k = 0; k < width; k++) {
            int64_t i = side ? total[k] - left[k] : left[k];
            double x = 0.0;
            if (i) {
                x = (ef_log(tree, i) - log_side - ef_log(tree, total[k]) + log_n) * EF_LOG2E;
                gain += (double)i * x;
                cells++;
            }
            influence[k] = x;
        }
    }
    for (int32_t k = 0; k < width; k++)
        if (total[k])
            cells--;
    *bias = (double)cells * 0.5 * EF_LOG2E;
    return gain / (double)n;
}

double ef_describe(ef_tree *tree, const int64_t *left, const int64_t *total, double *bias,
                   double *on_left, double *on_right)
{
    if (tree->task->criterion == EF_MSE)
        return describe_mse(left, total, bias, on_left, on_right);
    if (tree->task->criterion == EF_GINI)
        return describe_gini(tree, left, total, bias, on_left, on_right);
    return describe_entropy(tree, left, total, bias, on_left, on_right);
}

double ef_gain(ef_tree *tree, int64_t start, int64_t middle, int64_t end)
{
    const ef_task *task = tree->task;
    int32_t width = task->criterion == EF_MSE ? 3 : task->width, raced = tree->width;
    int64_t *total = tree->sums, *left = tree->sums + width;
    double bias;
    memset(total, 0, 2 * (size_t)width * sizeof *total);
    for (int64_t i = start; i < end; i++) {
        uint32_t row = tree->rows[i], label = ef_label(task, row), times = ef_times(tree, row);
        int64_t *cells = i < middle ? left : total;
        if (task->criterion == EF_MSE) {
            cells[0] += times;
            cells[1] += (int64_t)times * label;
        } else {
            cells[label] += times;
        }
    }
    for (int32_t k = 0; k < width; k++)
        total[k] += left[k];
    tree->width = width;
    double gain = ef_describe(tree, left, total, &bias, tree->influences, tree->influences + width);
    tree->width = raced;
    return gain;
}

double ef_scatter(const ef_tree *tree, const int64_t *cells, const int64_t *whole,
                  const double *one, const double *two)
{
    double sum = 0.0;
    if (tree->task->criterion == EF_MSE) {
        if (cells[0] == 0)
            return 0.0;
        double n = (double)cells[0], other = two ? *two : 0.0, difference = *one - other;
        double aside = 2.0 * ((double)cells[1] / n - (double)whole[1] / (double)whole[0]) -
                       (*one + other);
        return n * difference * difference * (4.0 * mse_impurity(cells) + aside * aside);
    }
    for (int32_t k = 0; k < tree->width; k++) {
        double d = two ? one[k] - two[k] : one[k];
        sum += (double)cells[k] * d * d;
    }
    return sum;
}
