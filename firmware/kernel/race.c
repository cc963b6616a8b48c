/* The race: find one node's split. Training._race and what it calls. */
#include "internal.h"

#define LOG2E 1.4426950408889634

/* Vectors of `width` sums in the workspace. */
#define TOTAL(tree) ((tree)->sums)
#define VECTOR(tree, i) ((tree)->sums + (size_t)(i) * (size_t)(tree)->width)

static double larger(double a, double b) { return b > a ? b : a; }

static double log_of(const ef_tree *tree, int64_t count)
{
    return count < EF_LOGS ? tree->logs[count] : log((double)count);
}

/* ---- What a histogram says ---- */

/* Add one bin's cells to a vector; returns whether there was anything. */
static int add_bin(const ef_tree *tree, const ef_contender *c, int bin, int64_t *to)
{
    int32_t width = tree->width;
    size_t at = c->h + (size_t)bin * (size_t)width;
    int64_t some = 0;
    if (tree->task->criterion == EF_MSE) {
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

static void clear(const ef_tree *tree, int64_t *to)
{
    memset(to, 0, (size_t)tree->width * sizeof *to);
}

static int64_t size_of(const ef_tree *tree, const int64_t *cells)
{
    if (tree->task->criterion == EF_MSE)
        return cells[0];
    int64_t n = 0;
    for (int32_t k = 0; k < tree->width; k++)
        n += cells[k];
    return n;
}

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
    return larger(0.0, (double)cells[2] / (double)cells[0] - mean * mean);
}

static double xlogx(const ef_tree *tree, const int64_t *cells)
{
    double total = 0.0;
    for (int32_t k = 0; k < tree->width; k++)
        if (cells[k] > 1)
            total += (double)cells[k] * log_of(tree, cells[k]);
    return total;
}

static double impurity(const ef_tree *tree, const int64_t *total)
{
    const ef_task *task = tree->task;
    if (task->criterion == EF_MSE)
        return mse_impurity(total);
    int64_t n = size_of(tree, total);
    if (task->criterion == EF_GINI)
        return 1.0 - squares_of(total, tree->width) / (double)(n * n);
    return (log_of(tree, n) - xlogx(tree, total) / (double)n) * LOG2E;
}

static double score_of(ef_tree *tree, const int64_t *left, const int64_t *total, int64_t n_left,
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
            on_right += (double)c * log_of(tree, c);
    }
    return xlogx(tree, left) - (double)n_left * log_of(tree, n_left) + on_right -
           (double)n_right * log_of(tree, n_right);
}

static double per_score(const ef_task *task, int64_t n)
{
    return task->criterion == EF_MSE ? 1.0 : (task->criterion == EF_GINI ? 1.0 : LOG2E) / (double)n;
}

/* Gain, bias x rows, and the influences of a row on the left and on the right, by class (or, of a
 * regression, one number a side). */
static double describe(ef_tree *tree, const int64_t *left, const int64_t *total, double *bias,
                       double *on_left, double *on_right)
{
    const ef_task *task = tree->task;
    int32_t width = tree->width;
    int64_t n = size_of(tree, total), n_left = size_of(tree, left), n_right = n - n_left;
    double dn = (double)n, dl = (double)n_left, dr = (double)n_right;
    if (task->criterion == EF_MSE) {
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
    if (task->criterion == EF_GINI) {
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
    double gain = 0.0;
    int64_t cells = -1;
    double log_n = log_of(tree, n);
    for (int side = 0; side < 2; side++) {
        double *influence = side ? on_right : on_left;
        double log_side = log_of(tree, side ? n_right : n_left);
        for (int32_t k = 0; k < width; k++) {
            int64_t i = side ? total[k] - left[k] : left[k];
            double x = 0.0;
            if (i) {
                x = (log_of(tree, i) - log_side - log_of(tree, total[k]) + log_n) * LOG2E;
                gain += (double)i * x;
                cells++;
            }
            influence[k] = x;
        }
    }
    for (int32_t k = 0; k < width; k++)
        if (total[k])
            cells--;
    *bias = (double)cells * 0.5 * LOG2E;
    return gain / dn;
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
    double gain = describe(tree, left, total, &bias, tree->influences, tree->influences + width);
    tree->width = raced;
    return gain;
}

/* Sum over the rows in `cells` of the squared difference of two influences; `two` may be NULL. */
static double scatter(const ef_tree *tree, const int64_t *cells, const int64_t *whole,
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

/* The paper's mu of an arm and the variance of one row's part in it. */
static double paper(const ef_tree *tree, const int64_t *left, const int64_t *total, int64_t n_left,
                    int64_t n_right, double *variance)
{
    const ef_task *task = tree->task;
    int32_t width = tree->width;
    double n = (double)(n_left + n_right), mean = 0.0, square = 0.0;
    for (int side = 0; side < 2; side++) {
        double n_side = (double)(side ? n_right : n_left);
        if (task->criterion == EF_MSE) {
            double cells[5];
            for (int k = 0; k < 5; k++)
                cells[k] = (double)(side ? total[k] - left[k] : left[k]);
            double m = cells[1] / cells[0];
            mean += cells[2] - cells[1] * m;
            square += cells[4] - m * (4.0 * cells[3] -
                                      m * (6.0 * cells[2] - m * (4.0 * cells[1] - m * cells[0])));
            continue;
        }
        int64_t sum = 0;
        if (task->criterion == EF_GINI)
            for (int32_t k = 0; k < width; k++) {
                int64_t i = side ? total[k] - left[k] : left[k];
                sum += i * i;
            }
        double s = (double)sum / (double)((side ? n_right : n_left) * (side ? n_right : n_left));
        double log_side = task->criterion == EF_ENTROPY ? log_of(tree, side ? n_right : n_left) : 0;
        for (int32_t k = 0; k < width; k++) {
            int64_t count = side ? total[k] - left[k] : left[k];
            double i = (double)count, slope;
            if (task->criterion == EF_GINI)
                slope = s - 2.0 * i / n_side;
            else if (count)
                slope = (log_side - log_of(tree, count)) * LOG2E;
            else
                continue;
            mean += i * slope;
            square += i * slope * slope;
        }
    }
    mean /= n;
    *variance = square / n - mean * mean;
    return task->criterion == EF_GINI ? 1.0 + mean : mean;
}

/* ---- Arms ---- */

/* Every way to split by a histogram, in order: see `arms` of core_pure. */
typedef struct {
    const ef_contender *c;
    int64_t *cells;         /* of the left side of the arm in hand */
    int64_t *left, *with;   /* the same without and with the missing */
    const int64_t *missing;
    int t, missing_left, some_missing, again;
} ef_arms;

static void arms_begin(ef_tree *tree, ef_arms *a, const ef_contender *c, int64_t *left,
                       int64_t *with, int64_t *missing)
{
    clear(tree, left);
    clear(tree, missing);
    a->c = c;
    a->some_missing = add_bin(tree, c, 0, missing);
    a->left = left;
    a->cells = left;
    a->with = with;
    a->missing = missing;
    a->t = 0;
    a->again = 0;
}

static int arms_next(ef_tree *tree, ef_arms *a)
{
    const ef_contender *c = a->c;
    if (a->again) { /* the same arm with the missing on the left */
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
            clear(tree, a->left);
        if (!add_bin(tree, c, a->t, a->left))
            continue; /* nobody in this bin: the same arm as the one before it */
        if (c->equal || a->t < c->bins || a->some_missing) {
            a->again = a->some_missing && (c->equal || a->t < c->bins);
            return 1;
        }
    }
    return 0;
}

/* Cells of an arm's left side. */
static void left_of(const ef_tree *tree, const ef_contender *c, int t, int missing_left,
                    int64_t *to)
{
    clear(tree, to);
    for (int bin = c->equal && t ? t : 1; bin <= t; bin++)
        add_bin(tree, c, bin, to);
    if (missing_left)
        add_bin(tree, c, 0, to);
}

/* Loops._best_threshold: Gini and no missing value, with running sums. */
static void best_threshold(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n,
                           int64_t least)
{
    int32_t width = tree->width;
    const int32_t *cells = (const int32_t *)tree->cells + c->h;
    int64_t *left = VECTOR(tree, 1);
    int64_t n_left = 0, a = 0, b = 0;
    double top = 0.0;
    clear(tree, left);
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
            double score = (double)a / (double)n_left + (double)b / (double)n_right;
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

/* The arm of highest score with at least `least` rows a side. */
static void best_arm(ef_tree *tree, ef_contender *c, const int64_t *total, int64_t n,
                     int64_t least)
{
    const ef_task *task = tree->task;
    int64_t *left = VECTOR(tree, 1), *with = VECTOR(tree, 2), *missing = VECTOR(tree, 3);
    ef_arms a;
    arms_begin(tree, &a, c, left, with, missing);
    if (task->criterion == EF_GINI && !c->equal && !a.some_missing) {
        best_threshold(tree, c, total, n, least);
        return;
    }
    c->found = 0;
    while (arms_next(tree, &a)) {
        int64_t n_left = size_of(tree, a.cells);
        if (n_left < least || n - n_left < least)
            continue;
        double score = score_of(tree, a.cells, total, n_left, n - n_left);
        if (!c->found || score > c->score) {
            c->found = 1;
            c->score = score;
            c->bin = (uint8_t)a.t;
            c->missing_left = (uint8_t)a.missing_left;
        }
    }
}

/* ---- Contenders ---- */

static int by_value(double *spots, int n)
{
    for (int i = 1; i < n; i++) {
        double x = spots[i];
        int j = i;
        for (; j > 0 && spots[j - 1] > x; j--)
            spots[j] = spots[j - 1];
        spots[j] = x;
    }
    return n;
}

static int code_of(const ef_column *c, double x)
{
    int low = 1, high = c->last;
    while (low < high) {
        int middle = (low + high) >> 1;
        if ((double)c->bounds[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The codes of a node's first rows, in order: which there are, and how many of each. */
typedef struct {
    uint8_t codes[EF_GROUP_ROWS + 1]; /* distinct */
    uint8_t upto[EF_GROUP_ROWS + 1];  /* how many rows have this code or a lower one */
    int distinct;
} ef_order;

static void sort_codes(ef_order *o, const uint8_t *codes, int n)
{
    uint8_t counts[2][256]; /* two, because a count that was just changed is slow to change again */
    uint64_t words[32];
    int upto = 0, distinct = 0;
    memset(counts, 0, sizeof counts);
    int i = 0;
    for (; i + 1 < n; i += 2) {
        counts[0][codes[i]]++;
        counts[1][codes[i + 1]]++;
    }
    if (i < n)
        counts[0][codes[i]]++;
    for (i = 0; i < 256; i++)
        counts[0][i] = (uint8_t)(counts[0][i] + counts[1][i]);
    memcpy(words, counts[0], sizeof words);
    for (int word = 0; word < 32; word++)
        while (words[word]) { /* the next code that occurs: a byte that is not zero */
            int code = ef_first_byte(words[word]);
            words[word] &= ~ef_byte_mask(code);
            code += 8 * word;
            upto += counts[0][code];
            o->codes[distinct] = (uint8_t)code;
            o->upto[distinct++] = (uint8_t)upto;
        }
    o->distinct = distinct;
}

/* Codes from .. to are in this bin, and perhaps some after them: those are filled in later. */
static void fill_table(uint8_t *table, int from, int to, int bin)
{
    uint64_t pattern = (uint64_t)bin * 0x0101010101010101u;
    for (; from <= to; from += 8)
        memcpy(table + from, &pattern, sizeof pattern);
}

/* Training._contender: the bins of a feature from the codes of the node's first rows. If none but
 * those are counted (`all`), only their codes are looked up in the table. Bins are of equal mass, or
 * else bounded by the codes of the first `few` rows. */
static void make_bins(ef_tree *tree, ef_contender *c, const ef_order *o, int all, int few)
{
    const ef_task *task = tree->task;
    const ef_column *column = c->column;
    if (column->categories) {
        c->equal = 1;
        c->bins = column->categories;
        for (int i = 0; i <= column->categories; i++)
            c->table[i] = c->cuts[i] = (uint8_t)i;
        memset(c->table + c->bins + 1, 0, (size_t)(255 - c->bins)); /* there is no such category */
        return;
    }
    c->equal = 0;
    int at = !task->raw && o->codes[0] == 0, skipped = at ? o->upto[0] : 0; /* the missing */
    int first = o->codes[at], last = o->codes[o->distinct - 1];
    int n = o->upto[o->distinct - 1] - skipped, bins = task->n_bins, count = 0;
    int wanted[256];
    if (task->extra || task->splitter == EF_PAPER) {
        double spots[256];
        double low = ef_bound(column, first > 0 ? first - 1 : 0);
        double span = ef_bound(column, last) - low;
        for (int i = 1; i < bins; i++)
            spots[i - 1] = task->extra ? low + span * (ef_rng_next(&tree->rng) / 1073741824.0)
                                       : low + span * (double)i / (double)bins;
        count = task->extra ? by_value(spots, bins - 1) : bins - 1;
        for (int i = 0; i < count; i++) {
            wanted[i] = task->raw ? (int)spots[i] : code_of(column, spots[i]);
            if (!task->raw && wanted[i] < first)
                wanted[i] = first;
            if (!task->raw && wanted[i] >= last)
                wanted[i] = last - 1;
        }
    } else if (few) {
        uint8_t seen[256];
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < few; i++)
            seen[c->head[i]] = 1;
        for (int i = at; i < o->distinct - 1; i++)
            if (seen[o->codes[i]])
                wanted[count++] = o->codes[i];
        if (count == 0 && first < last)
            wanted[count++] = o->codes[o->distinct - 2];
    } else {
        int whole = n / bins, part = n % bins, j = 0, rest = 0;
        for (int i = 1; i < bins; i++) {
            j += whole; /* i * n / bins */
            rest += part;
            if (rest >= bins) {
                rest -= bins;
                j++;
            } else if (whole == 0) {
                continue; /* the same row again */
            }
            while (o->upto[at] - skipped < j) /* midway between row j - 1 and row j, in order */
                at++;
            int next = o->upto[at] - skipped > j ? o->codes[at] : o->codes[at + 1];
            wanted[count++] = (o->codes[at] + next) >> 1;
        }
        if (first < last && wanted[0] >= last) { /* few are below the largest, but some */
            wanted[0] = (o->codes[o->distinct - 2] + last) >> 1;
            count = 1;
        }
    }
    int before = task->raw ? -1 : 0, bin = 1, place = 0;
    c->cuts[0] = 0;
    c->table[0] = 0;
    if (all && !task->raw && o->codes[0] == 0)
        place = 1;
    for (int i = 0; i < count; i++) {
        int cut = wanted[i];
        if (before < cut && cut < last) {
            if (all)
                for (; o->codes[place] <= cut; place++)
                    c->table[o->codes[place]] = (uint8_t)bin;
            else
                fill_table(c->table, before + 1, cut, bin);
            c->cuts[bin++] = (uint8_t)cut;
            before = cut;
        }
    }
    if (all)
        for (; place < o->distinct; place++)
            c->table[o->codes[place]] = (uint8_t)bin;
    else
        fill_table(c->table, before + 1, 255, bin);
    c->cuts[bin] = 255;
    c->bins = (uint8_t)bin;
}

/* Draw the next feature, and the codes of the node's first rows. `drawn` counts those that were
 * drawn. Returns 0 when there is none left. */
static int draw_next(ef_tree *tree, const uint32_t *rows, int head, int32_t *drawn,
                     ef_contender *c)
{
    const ef_task *task = tree->task;
    if (*drawn == task->n_usable)
        return 0;
    uint16_t *features = tree->features;
    int32_t i = (*drawn)++;
    int32_t j = i + (int32_t)ef_rng_below(&tree->rng, (uint32_t)(task->n_usable - i));
    uint16_t f = features[j];
    features[j] = features[i];
    features[i] = f;
    c->feature = f;
    c->column = task->columns + f;
    ef_gather(tree, c->column, rows, head, c->head);
    return 1;
}

static int varies(const uint8_t *codes, int n)
{
    uint8_t differ = 0;
    for (int k = 1; k < n; k++)
        differ = (uint8_t)(differ | (codes[k] ^ codes[0]));
    return differ != 0;
}

/* Put the codes of a feature in order, if it varies. If the first rows are all the same, a rare
 * value may show up further on. */
static int order_codes(ef_tree *tree, const uint32_t *rows, int head, int64_t look,
                       const ef_contender *c, ef_order *order)
{
    uint8_t low = c->head[0], other = low, more[EF_PIECE];
    if (varies(c->head, head)) {
        sort_codes(order, c->head, head);
        return 1;
    }
    for (int64_t at = head; at < look && other == low; at += EF_PIECE) {
        int piece = look - at < EF_PIECE ? (int)(look - at) : EF_PIECE;
        uint8_t differ = 0;
        ef_gather(tree, c->column, rows + at, piece, more);
        for (int k = 0; k < piece; k++)
            differ = (uint8_t)(differ | (more[k] ^ low));
        for (int k = 0; differ && other == low; k++)
            other = more[k];
    }
    order->distinct = 2;
    order->codes[0] = low < other ? low : other;
    order->codes[1] = low < other ? other : low;
    order->upto[0] = 1;
    order->upto[1] = 2;
    return other != low;
}

static void zero_cells(ef_tree *tree, size_t from, size_t count)
{
    size_t bytes = tree->task->criterion == EF_MSE ? sizeof(int64_t) : sizeof(int32_t);
    memset((unsigned char *)tree->cells + from * bytes, 0, count * bytes);
}

/* All features of a race, in their order; returns how many. */
static int contenders(ef_tree *tree, int64_t start, int64_t n)
{
    const uint32_t *rows = tree->rows + start;
    int head = n < EF_GROUP_ROWS ? (int)n : EF_GROUP_ROWS, chosen = 0;
    int64_t look = n < EF_LOOK_ROWS ? n : EF_LOOK_ROWS;
    int32_t drawn = 0;
    ef_order order;
    if (tree->task->row_major && n > EF_EXACT_BELOW) { /* smaller ones are in the cache already */
        ptrdiff_t step = tree->task->columns[0].step;
        ptrdiff_t most = EF_LINE * 8 * (ptrdiff_t)tree->task->max_features;
        for (int i = 0; i < head && step <= most; i++)
            for (ptrdiff_t at = 0; at < step; at += EF_LINE)
                EF_PREFETCH(tree->task->columns[0].values + rows[i] * step + at);
    }
    while (chosen < tree->task->max_features) {
        ef_contender *c = tree->contenders + chosen;
        if (!draw_next(tree, rows, head, &drawn, c))
            break;
        if (order_codes(tree, rows, head, look, c, &order)) {
            make_bins(tree, c, &order, 0, 0); /* all codes: a row may be another when read again */
            chosen++;
        }
    }
    /* In the order of their features. The list is sorted, not the contenders: they are large. */
    uint32_t *racing = tree->racing;
    for (int i = 0; i < chosen; i++) {
        int j = i;
        for (; j > 0 && tree->contenders[racing[j - 1]].feature > tree->contenders[i].feature; j--)
            racing[j] = racing[j - 1];
        racing[j] = (uint32_t)i;
    }
    size_t cells = 0;
    for (int i = 0; i < chosen; i++) {
        tree->contenders[i].h = cells;
        cells += (size_t)(tree->contenders[i].bins + 1) * (size_t)tree->width;
    }
    zero_cells(tree, 0, cells);
    return chosen;
}

/* ---- Counting ---- */

static void count_classes(ef_tree *tree, const ef_contender *c, const uint32_t *rows, int n,
                          const uint32_t *labels, const uint32_t *times, int first)
{
    const ef_column *column = c->column;
    const uint8_t *table = c->table;
    int32_t *cells = (int32_t *)tree->cells + c->h;
    uint32_t width = (uint32_t)tree->width;
    int i = 0;
    if (first) { /* their codes are at hand */
        int head = n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS;
        for (; i < head; i++)
            cells[table[c->head[i]] * width + labels[i]] += (int32_t)times[i];
    }
    if (column->type == EF_CODES) {
        const unsigned char *values = column->values;
        ptrdiff_t step = column->step;
        for (; i < n; i++) {
            uint32_t bin = table[values[(ptrdiff_t)rows[i] * step]];
            cells[bin * width + labels[i]] += (int32_t)times[i];
        }
        return;
    }
    uint8_t codes[EF_PIECE];
    ef_gather(tree, column, rows + i, n - i, codes + i);
    for (; i < n; i++)
        cells[table[codes[i]] * width + labels[i]] += (int32_t)times[i];
}

static void count_moments(ef_tree *tree, const ef_contender *c, const uint32_t *rows, int n,
                          const int64_t *moments, int first)
{
    int32_t width = tree->width;
    int64_t *cells = (int64_t *)tree->cells + c->h;
    uint8_t codes[EF_PIECE];
    int head = !first ? 0 : n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS;
    memcpy(codes, c->head, (size_t)head);
    ef_gather(tree, c->column, rows + head, n - head, codes + head);
    if (tree->whole) { /* nothing is left in doubt, so nobody asks for the squares */
        for (int i = 0; i < n; i++) {
            int64_t *cell = cells + (size_t)c->table[codes[i]] * 3;
            cell[0] += moments[i];
            cell[1] += moments[EF_PIECE + i];
        }
        return;
    }
    if (width == 3) {
        for (int i = 0; i < n; i++) {
            int64_t *cell = cells + (size_t)c->table[codes[i]] * 3;
            cell[0] += moments[i];
            cell[1] += moments[EF_PIECE + i];
            cell[2] += moments[2 * EF_PIECE + i];
        }
        return;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < width; k++)
            cells[c->table[codes[i]] * width + k] += moments[k * EF_PIECE + i];
}

/* Of some rows: the times drawn, and their labels or moments of the target. */
typedef struct {
    uint32_t labels[EF_PIECE], times[EF_PIECE];
    int64_t moments[5 * EF_PIECE];
} ef_piece;

/* Look a piece of rows up; returns the sum of the squared times. */
static int64_t look_up(ef_tree *tree, const uint32_t *rows, int n, ef_piece *piece)
{
    const ef_task *task = tree->task;
    int64_t squares = 0;
    for (int i = 0; i < n; i++) {
        uint32_t label = ef_label(task, rows[i]), times = ef_times(tree, rows[i]);
        piece->labels[i] = tree->map ? tree->map[label] : label;
        piece->times[i] = times;
        squares += (int64_t)times * times;
    }
    if (task->criterion == EF_MSE)
        for (int i = 0; i < n; i++) {
            int64_t y = piece->labels[i], power = piece->times[i];
            if (tree->width == 5) /* 11 bits and a sign */
                y = (y >> 5) - 1024;
            for (int k = 0; k < tree->width; k++, power *= y)
                piece->moments[k * EF_PIECE + i] = power;
        }
    return squares;
}

/* Count a piece of rows into one histogram; `first`: those rows whose codes are at hand. */
static void count(ef_tree *tree, const ef_contender *c, const uint32_t *rows, int n,
                  const ef_piece *piece, int first)
{
    if (tree->task->criterion == EF_MSE)
        count_moments(tree, c, rows, n, piece->moments, first);
    else
        count_classes(tree, c, rows, n, piece->labels, piece->times, first);
}

/* Count a piece of rows into every racing histogram, row by row: codes of a row lie side by side,
 * and no histogram is written to twice in a row. `left` rows are still to come, these included. */
static void count_rows(ef_tree *tree, int n_racing, const uint32_t *rows, int n, int64_t left,
                       const ef_piece *piece)
{
    struct {
        const unsigned char *values;
        const uint8_t *table;
        int32_t *cells;
    } lanes[EF_PIECE];
    uint32_t width = (uint32_t)tree->width;
    ptrdiff_t step = tree->task->columns[0].step;
    for (int from = 0; from < n_racing; from += EF_PIECE) {
        int many = n_racing - from < EF_PIECE ? n_racing - from : EF_PIECE;
        for (int j = 0; j < many; j++) {
            const ef_contender *c = tree->contenders + tree->racing[from + j];
            lanes[j].values = c->column->values;
            lanes[j].table = c->table;
            lanes[j].cells = (int32_t *)tree->cells + c->h;
        }
        /* Places of a row that are some cache line apart, to be fetched ahead. */
        const unsigned char *ahead[EF_PIECE];
        int n_ahead = 0;
        for (int j = 0; j < many; j++)
            if (n_ahead == 0 || lanes[j].values - ahead[n_ahead - 1] >= EF_LINE)
                ahead[n_ahead++] = lanes[j].values;
        int i = 0;
        for (; i + 3 < n; i += 4) { /* four rows at once, so that a lane is looked up once for them */
            for (int ahead_by = 4; ahead_by < 8 && i + ahead_by < left; ahead_by++)
                for (int k = 0; k < n_ahead; k++)
                    EF_PREFETCH(ahead[k] + (ptrdiff_t)rows[i + ahead_by] * step);
            ptrdiff_t a = (ptrdiff_t)rows[i] * step, b = (ptrdiff_t)rows[i + 1] * step;
            ptrdiff_t c = (ptrdiff_t)rows[i + 2] * step, d = (ptrdiff_t)rows[i + 3] * step;
            const uint32_t *label = piece->labels + i, *times = piece->times + i;
            for (int j = 0; j < many; j++) {
                const unsigned char *values = lanes[j].values;
                const uint8_t *table = lanes[j].table;
                int32_t *cells = lanes[j].cells;
                cells[table[values[a]] * width + label[0]] += (int32_t)times[0];
                cells[table[values[b]] * width + label[1]] += (int32_t)times[1];
                cells[table[values[c]] * width + label[2]] += (int32_t)times[2];
                cells[table[values[d]] * width + label[3]] += (int32_t)times[3];
            }
        }
        for (; i < n; i++) {
            ptrdiff_t row = (ptrdiff_t)rows[i] * step;
            for (int j = 0; j < many; j++)
                lanes[j].cells[lanes[j].table[lanes[j].values[row]] * width + piece->labels[i]] +=
                    (int32_t)piece->times[i];
        }
    }
}

/* Count `*granted` rows from `start` on into every racing histogram; returns the sum of the squared
 * times. If the time is up on the way, the rows that were not counted are given back. */
static int64_t insert(ef_tree *tree, int n_racing, int64_t start, int64_t *granted, int first)
{
    int64_t squares = 0, end = start + *granted;
    ef_piece piece;
    int by_rows = tree->task->row_major && tree->task->criterion != EF_MSE;
    for (int64_t at = start; at < end; at += EF_PIECE) {
        const uint32_t *rows = tree->rows + at;
        int n = end - at < EF_PIECE ? (int)(end - at) : EF_PIECE;
        squares += look_up(tree, rows, n, &piece);
        if (by_rows)
            count_rows(tree, n_racing, rows, n, end - at, &piece);
        else
            for (int j = 0; j < n_racing; j++)
                count(tree, tree->contenders + tree->racing[j], rows, n, &piece,
                      first && at == start);
        if (ef_ask(tree, (int64_t)n * n_racing, 0) != EF_GO) {
            int64_t rest = end - at - n;
            *granted -= rest;
            tree->insertions -= rest * n_racing;
            if (tree->left >= 0)
                tree->left += rest * n_racing;
            break;
        }
    }
    return squares;
}

/* Budget.take: ask for `rows` rows of `width` insertions each; returns as many as fit. */
static int64_t take(ef_tree *tree, int64_t rows, int64_t width)
{
    if (ef_ask(tree, 0, 1) != EF_GO)
        return 0;
    if (tree->left >= 0 && rows > tree->left / width)
        rows = tree->left / width;
    if (rows > 0) {
        tree->insertions += rows * width;
        if (tree->left >= 0)
            tree->left -= rows * width;
        tree->rounds++;
    }
    return rows;
}

/* ---- The race ---- */

static void total_of(ef_tree *tree, const ef_contender *c)
{
    clear(tree, TOTAL(tree));
    for (int bin = 0; bin <= c->bins; bin++)
        add_bin(tree, c, bin, TOTAL(tree));
}

static void judge(ef_tree *tree, ef_contender *c, double rest)
{
    const int64_t *total = TOTAL(tree);
    int64_t *left = VECTOR(tree, 1), *right = VECTOR(tree, 2);
    double *on_left = tree->influences, *on_right = tree->influences + tree->width;
    double size = (double)size_of(tree, total), bias;
    left_of(tree, c, c->bin, c->missing_left, left);
    double gain = describe(tree, left, total, &bias, on_left, on_right);
    for (int32_t k = 0; k < tree->width; k++)
        right[k] = total[k] - left[k];
    double sum = scatter(tree, left, total, on_left, NULL);
    sum += scatter(tree, right, total, on_right, NULL);
    c->gain = gain - bias * rest;
    c->variance = larger(0.0, sum / size - gain * gain) * rest;
}

/* Whether another arm of the leading feature may still beat its best by more than slack. */
static int better_threshold(ef_tree *tree, const ef_contender *c, double rest, double slack)
{
    const ef_task *task = tree->task;
    int32_t width = tree->width;
    const int64_t *total = TOTAL(tree);
    int64_t *left = VECTOR(tree, 1), *with = VECTOR(tree, 2), *missing = VECTOR(tree, 3);
    int64_t *best = VECTOR(tree, 4), *both = VECTOR(tree, 5), *cells = VECTOR(tree, 6);
    double *on_left = tree->influences, *on_right = on_left + width;
    double *lead_left = on_right + width, *lead_right = lead_left + width;
    int64_t n = size_of(tree, total);
    double size = (double)n, bias;
    double far = 2.0 * task->z * sqrt(c->variance);
    left_of(tree, c, c->bin, c->missing_left, best);
    double gain = describe(tree, best, total, &bias, lead_left, lead_right);
    ef_arms a;
    arms_begin(tree, &a, c, left, with, missing);
    while (arms_next(tree, &a)) {
        int64_t n_left = size_of(tree, a.cells);
        if (n_left == 0 || n_left == n || (a.t == c->bin && a.missing_left == c->missing_left))
            continue;
        double gap = score_of(tree, a.cells, total, n_left, n - n_left) - c->score;
        if (gap * per_score(task, n) + far <= slack)
            continue;
        double other = describe(tree, a.cells, total, &bias, on_left, on_right);
        /* The four groups of rows by the side that each arm sends them to. */
        int t = c->equal && a.t != c->bin ? 0 : a.t;
        left_of(tree, c, t < c->bin ? t : c->bin, a.missing_left && c->missing_left, both);
        double sum = scatter(tree, both, total, on_left, lead_left);
        for (int32_t k = 0; k < width; k++)
            cells[k] = a.cells[k] - both[k];
        sum += scatter(tree, cells, total, on_left, lead_right);
        for (int32_t k = 0; k < width; k++)
            cells[k] = best[k] - both[k];
        sum += scatter(tree, cells, total, on_right, lead_left);
        for (int32_t k = 0; k < width; k++)
            cells[k] = total[k] - a.cells[k] - cells[k];
        sum += scatter(tree, cells, total, on_right, lead_right);
        gap = other - gain;
        double variance = larger(0.0, sum / size - gap * gap) * rest;
        if (gap + task->z * sqrt(variance) > slack)
            return 1;
    }
    return 0;
}

/* Turn the arm that won into a split; `left` are the cells of its left side, in VECTOR 1. */
static int decide(ef_tree *tree, const ef_contender *lead, double rest, int some_missing,
                  ef_split *split)
{
    const ef_task *task = tree->task;
    const int64_t *total = TOTAL(tree), *left = VECTOR(tree, 1);
    double bias;
    double gain = describe(tree, left, total, &bias, tree->influences,
                           tree->influences + tree->width);
    gain = larger(0.0, gain - bias * rest);
    split->missing_left = lead->missing_left;
    if (!some_missing) /* none seen missing: such a row joins the larger side */
        split->missing_left = task->raw || 2 * size_of(tree, left) > size_of(tree, total);
    if (tree->width == 5 && task->criterion == EF_MSE)
        gain *= 1024.0; /* back to squared levels */
    split->feature = lead->feature;
    split->code = lead->cuts[lead->bin];
    split->equal = lead->equal;
    split->gain = gain;
    return 1;
}

/* The same of an arm whose histogram is there. */
static int decide_by_cells(ef_tree *tree, const ef_contender *lead, double rest, ef_split *split)
{
    int64_t *missing = VECTOR(tree, 2);
    clear(tree, missing);
    int some_missing = add_bin(tree, lead, 0, missing);
    left_of(tree, lead, lead->bin, lead->missing_left, VECTOR(tree, 1));
    return decide(tree, lead, rest, some_missing, split);
}

/* z with an upper tail of p. */
static double normal_quantile(double p)
{
    double t = sqrt(-2.0 * log(p));
    double over = 2.515517 + t * (0.802853 + t * 0.010328);
    return t - over / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* Algorithm 1 of the paper. */
static int race_paper(ef_tree *tree, int n_racing, int64_t start, int64_t n, ef_split *split)
{
    const ef_task *task = tree->task;
    const int64_t *total = TOTAL(tree);
    int64_t *left = VECTOR(tree, 1), *with = VECTOR(tree, 2), *missing = VECTOR(tree, 3);
    int64_t seen = 0, squares = 0;
    double z, rest = 0.0;
    ef_contender *winner = NULL;
    if (task->confidence < 0.0) /* delta = 1 / (n^2 m T) */
        z = normal_quantile(0.5 / ((double)n * (double)n * n_racing * task->n_bins));
    else
        z = normal_quantile(0.5 * (1.0 - task->confidence));
    for (int j = 0; j < n_racing; j++)
        memset(tree->contenders[tree->racing[j]].alive, 255, 64);
    while (seen < n) {
        int64_t granted = take(tree, n - seen < EF_PAPER_BATCH ? n - seen : EF_PAPER_BATCH,
                               n_racing);
        if (granted <= 0)
            break;
        squares += insert(tree, n_racing, start + seen, &granted, seen == 0);
        seen += granted;
        if (tree->stopped)
            return 0;
        total_of(tree, tree->contenders + tree->racing[0]);
        int64_t least = (task->min_samples_leaf * seen + n - 1) / n;
        int64_t size = size_of(tree, total);
        least = least < 1 ? 1 : least;
        rest = (double)(n - seen) / (double)(n > 1 ? n - 1 : 1) * (double)squares /
               (double)(size * size);
        double factor = z * sqrt(rest), lowest = 0.0, top = 0.0;
        winner = NULL;
        /* Twice over the arms: the best upper bound, then who is not below it for sure. */
        for (int pass = 0; pass < 2; pass++) {
            int any = 0;
            for (int j = 0; j < n_racing; j++) {
                ef_contender *c = tree->contenders + tree->racing[j];
                uint8_t alive[64];
                memset(alive, 0, sizeof alive);
                ef_arms a;
                arms_begin(tree, &a, c, left, with, missing);
                while (arms_next(tree, &a)) {
                    int64_t n_left = size_of(tree, a.cells);
                    int key = 2 * a.t + a.missing_left;
                    if (n_left < least || size - n_left < least)
                        continue;
                    if (!(c->alive[key >> 3] >> (key & 7) & 1))
                        continue;
                    double variance;
                    double mu = paper(tree, a.cells, total, n_left, size - n_left, &variance);
                    double half = factor * sqrt(larger(0.0, variance));
                    if (pass) {
                        if (mu - half <= lowest)
                            alive[key >> 3] = (uint8_t)(alive[key >> 3] | 1 << (key & 7));
                        continue;
                    }
                    if (!any || mu + half < lowest)
                        lowest = mu + half;
                    if (!any || mu < top) {
                        top = mu;
                        winner = c;
                        c->score = mu;
                        c->bin = (uint8_t)a.t;
                        c->missing_left = (uint8_t)a.missing_left;
                    }
                    any = 1;
                }
                if (pass)
                    memcpy(c->alive, alive, sizeof alive);
            }
            if (!winner)
                break;
        }
        if (!winner)
            continue;
        int kept = 0, last_arms = 0;
        for (int j = 0; j < n_racing; j++) {
            const ef_contender *c = tree->contenders + tree->racing[j];
            int count = 0;
            for (int i = 0; i < 512; i++)
                count += c->alive[i >> 3] >> (i & 7) & 1;
            if (count) {
                tree->racing[kept++] = tree->racing[j];
                last_arms = count;
            }
        }
        n_racing = kept;
        if (n_racing == 1 && last_arms == 1)
            break;
    }
    return winner ? decide_by_cells(tree, winner, rest, split) : 0;
}

/* ---- Small nodes ---- */

/* The rows of a small node as planes of bytes, for sums over those with a code of at most so much:
 * of row i, `planes[k * EF_GROUP_ROWS + i]` are the times drawn if it is of class k, else 0. Of a
 * regression plane 0 has the times, and planes 1 to 3 the bytes of times x target. Rows are padded
 * with zeros to a multiple of 16. */
typedef struct {
    int n, padded;
    uint8_t *planes;
} ef_small;

/* Which of the rows have a code of at most `code`, as bytes of 0 or 255; and sums over those. */
#ifdef __SSE2__
#include <emmintrin.h>

typedef struct {
    __m128i part[EF_GROUP_ROWS / 16];
} ef_mask;

static inline void rows_up_to(const uint8_t *codes, int padded, uint8_t code, ef_mask *mask)
{
    __m128i limit = _mm_set1_epi8((char)code);
    for (int i = 0; i < padded; i += 16) {
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(codes + i));
        mask->part[i >> 4] = _mm_cmpeq_epi8(_mm_min_epu8(c, limit), c);
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

/* The best threshold of a feature, among the codes of the first `few` rows; none is missing. */
static void best_of_few(ef_tree *tree, ef_contender *c, const ef_small *small, int few,
                        const int64_t *total, int64_t size)
{
    const ef_task *task = tree->task;
    int64_t least = task->min_samples_leaf, *left = VECTOR(tree, 1);
    uint64_t tried[4] = {0, 0, 0, 0};
    uint8_t *codes = c->head, last = codes[0], under = 0;
    int some = 0;
    memset(codes + small->n, codes[0], (size_t)(small->padded - small->n));
    for (int i = 0; i < small->padded; i++)
        last = codes[i] > last ? codes[i] : last;
    c->found = 0;
    for (int i = 0; i <= few; i++) {
        uint8_t code;
        if (i < few) {
            code = codes[i];
            uint64_t bit = (uint64_t)1 << (code & 63);
            if (code == last || tried[code >> 6] & bit)
                continue;
            tried[code >> 6] |= bit;
        } else { /* if none of the few was below the largest: the next below it */
            if (some)
                break;
            for (int k = 0; k < small->n; k++)
                if (codes[k] < last && codes[k] >= under)
                    under = codes[k];
            code = under;
        }
        some = 1;
        ef_mask mask;
        rows_up_to(codes, small->padded, code, &mask);
        double score;
        int64_t n_left;
        if (task->criterion == EF_MSE) {
            int64_t sums[4];
            for (int k = 0; k < 4; k++)
                sums[k] = sum_of(&mask, small->planes + k * EF_GROUP_ROWS, small->padded);
            n_left = left[0] = sums[0];
            left[1] = sums[1] + sums[2] * 256 + sums[3] * 65536;
            if (n_left < least || size - n_left < least)
                continue;
            double all = (double)total[0], some_left = (double)n_left; /* as score_of has it */
            double d = ((double)left[1] * all - (double)total[1] * some_left) / all;
            score = d * d / (some_left * (double)(size - n_left));
        } else {
            int64_t a = 0, b = 0;
            n_left = 0;
            for (int32_t k = 0; k < tree->width; k++) {
                int64_t count = sum_of(&mask, small->planes + k * EF_GROUP_ROWS, small->padded);
                left[k] = count;
                n_left += count;
                a += count * count;
                b += (total[k] - count) * (total[k] - count);
            }
            if (n_left < least || size - n_left < least)
                continue;
            if (task->criterion == EF_GINI)
                score = (double)a / (double)n_left + (double)b / (double)(size - n_left);
            else
                score = score_of(tree, left, total, n_left, size - n_left);
        }
        if (!c->found || score > c->score || (score == c->score && code < c->cuts[1])) {
            c->found = 1;
            c->score = score;
            c->cuts[1] = code;
        }
    }
    c->bin = 1;
    c->equal = c->missing_left = 0;
}

/* Training._race_small: count all of a small node, one feature after the other. */
static int race_small(ef_tree *tree, int64_t start, int64_t n, ef_split *split)
{
    const ef_task *task = tree->task;
    const uint32_t *rows = tree->rows + start;
    ef_contender *best = NULL, *c = tree->contenders, *other = tree->contenders + 1;
    int few = task->n_bins > 4 ? task->n_bins / 2 - 1 : 1, by_cells = 1, best_by_cells = 1;
    int32_t drawn = 0, chosen = 0;
    int64_t *total = TOTAL(tree), size;
    ef_piece piece;
    ef_small small;
    few = few < n ? few : (int)n;
    small.n = (int)n;
    small.padded = ((int)n + 15) & ~15;
    small.planes = tree->planes;
    look_up(tree, rows, (int)n, &piece);
    clear(tree, total);
    memset(small.planes, 0, (size_t)(task->criterion == EF_MSE ? 4 : tree->width) * EF_GROUP_ROWS);
    for (int i = 0; i < n; i++) {
        if (task->criterion == EF_MSE) {
            for (int k = 0; k < tree->width; k++)
                total[k] += piece.moments[k * EF_PIECE + i];
            small.planes[i] = (uint8_t)piece.times[i];
            for (int k = 0; k < 3; k++)
                small.planes[(k + 1) * EF_GROUP_ROWS + i] =
                    (uint8_t)(piece.moments[EF_PIECE + i] >> (8 * k));
        } else {
            total[piece.labels[i]] += piece.times[i];
            small.planes[piece.labels[i] * EF_GROUP_ROWS + (uint32_t)i] = (uint8_t)piece.times[i];
        }
    }
    size = size_of(tree, total);
    double perfect = task->criterion == EF_GINI ? (double)size
                     : task->criterion == EF_ENTROPY ? 0.0 : HUGE_VAL;
    while ((drawn < task->max_features || chosen == 0) &&
           draw_next(tree, rows, (int)n, &drawn, c)) {
        if (!varies(c->head, (int)n))
            continue;
        chosen++;
        if (take(tree, n, 1) <= 0)
            break;
        by_cells = task->extra || tree->times16 || c->column->categories ||
                   (!task->raw && memchr(c->head, 0, (size_t)n));
        if (by_cells) {
            ef_order order;
            sort_codes(&order, c->head, (int)n);
            make_bins(tree, c, &order, 1, few);
            c->h = c == tree->contenders ? 0 : tree->most_cells;
            zero_cells(tree, c->h, (size_t)(c->bins + 1) * (size_t)tree->width);
            count(tree, c, rows, (int)n, &piece, 1);
            best_arm(tree, c, total, size, task->min_samples_leaf);
        } else {
            best_of_few(tree, c, &small, few, total, size);
        }
        if (c->found && (!best || c->score > best->score)) {
            ef_contender *free = best ? best : other;
            best = c;
            c = free;
            best_by_cells = by_cells;
            if (n == 2 || best->score >= perfect)
                break;
        }
    }
    tree->work += n * drawn;
    if (!best)
        return 0;
    if (best_by_cells) {
        decide_by_cells(tree, best, 0.0, split);
    } else {
        int64_t *left = VECTOR(tree, 1);
        clear(tree, left);
        for (int i = 0; i < n; i++)
            if (best->head[i] <= best->cuts[1]) {
                if (task->criterion == EF_MSE)
                    for (int k = 0; k < tree->width; k++)
                        left[k] += piece.moments[k * EF_PIECE + i];
                else
                    left[piece.labels[i]] += piece.times[i];
            }
        decide(tree, best, 0.0, 0, split);
    }
    if (!best->equal && !task->extra) { /* midway to the next code in the node */
        int next = 256;
        for (int i = 0; i < n; i++)
            if (best->head[i] > split->code && best->head[i] < next)
                next = best->head[i];
        if (next < 256)
            split->code = (uint8_t)((split->code + next) >> 1);
    }
    return 1;
}

/* Classes that a node has no row of take no part: number those that it has. */
static void number_classes(ef_tree *tree, int64_t start, int64_t end)
{
    const ef_task *task = tree->task;
    tree->width = task->width;
    tree->map = NULL;
    if (task->criterion == EF_MSE || task->width < 3 || end - start > EF_EXACT_BELOW)
        return;
    uint16_t *map = tree->numbers;
    memset(map, 255, (size_t)task->width * sizeof *map);
    for (int64_t i = start; i < end; i++)
        map[ef_label(task, tree->rows[i])] = 0;
    int32_t width = 0;
    for (int32_t k = 0; k < task->width; k++) /* in order: sums of floats depend on it */
        if (map[k] == 0)
            map[k] = (uint16_t)width++;
    tree->width = width;
    tree->map = map;
}

int ef_race(ef_tree *tree, int64_t start, int64_t end, ef_split *split)
{
    const ef_task *task = tree->task;
    int64_t n = end - start, batch = n, most = n, seen = 0, squares = 0;
    double rest;
    number_classes(tree, start, end);
    tree->whole = 0;
    if (n <= EF_GROUP_ROWS && task->splitter != EF_PAPER &&
        (tree->left < 0 || tree->wanted * task->max_features <= tree->left))
        return race_small(tree, start, n, split);
    int n_racing = contenders(tree, start, n);
    if (n_racing == 0)
        return 0;
    if (task->splitter == EF_PAPER)
        return race_paper(tree, n_racing, start, n, split);
    if (task->splitter == EF_MAB) {
        int64_t wanted = tree->wanted * n_racing;
        if (tree->left >= 0 && wanted > tree->left) { /* short: every race gets its part */
            most = EF_RACE_ROWS * tree->left / wanted;
            most = most < EF_LEAST_ROWS ? EF_LEAST_ROWS : most;
            most = most < n ? most : n;
        }
        batch = n <= EF_EXACT_BELOW || most < task->batch ? most : task->batch;
    } else if (tree->left >= 0 && tree->left < n * n_racing) {
        return 0; /* exact or nothing */
    }
    ef_contender *lead;
    const int64_t *total = TOTAL(tree);
    tree->whole = batch == n && !tree->limited && (tree->left < 0 || tree->left >= n * n_racing);
    for (;;) {
        int64_t granted = take(tree, batch < most - seen ? batch : most - seen, n_racing);
        if (granted > 0) {
            squares += insert(tree, n_racing, start + seen, &granted, seen == 0);
            seen += granted;
            if (tree->stopped)
                return 0;
        } else if (seen == 0) {
            return 0;
        }
        total_of(tree, tree->contenders + tree->racing[0]);
        int64_t size = size_of(tree, total);
        rest = 0.0;
        if (seen < n)
            rest = (double)(n - seen) / (double)(n - 1) * (double)squares / (double)(size * size);
        if (granted > 0) {
            int64_t least = (task->min_samples_leaf * seen + n - 1) / n;
            for (int j = 0; j < n_racing; j++)
                best_arm(tree, tree->contenders + tree->racing[j], total, size,
                         least < 1 ? 1 : least);
        }
        int kept = 0;
        for (int j = 0; j < n_racing; j++)
            if (tree->contenders[tree->racing[j]].found)
                tree->racing[kept++] = tree->racing[j];
        n_racing = kept;
        if (n_racing == 0)
            return 0;
        lead = tree->contenders + tree->racing[0];
        if (seen == most || granted <= 0) {
            for (int j = 1; j < n_racing; j++)
                if (tree->contenders[tree->racing[j]].score > lead->score)
                    lead = tree->contenders + tree->racing[j];
            break;
        }
        for (int j = 0; j < n_racing; j++) {
            ef_contender *c = tree->contenders + tree->racing[j];
            judge(tree, c, rest);
            if (c->gain > lead->gain)
                lead = c;
        }
        double doubt = impurity(tree, total);
        double slack = larger(task->tolerance * lead->gain, EF_TOLERANCE_IMPURITY * doubt);
        if (doubt > 0.0) { /* else one class only was seen, of a node that is known to be mixed */
            kept = 0;
            for (int j = 0; j < n_racing; j++) {
                const ef_contender *c = tree->contenders + tree->racing[j];
                if (c == lead || c->gain - lead->gain +
                                         task->z * sqrt(c->variance + lead->variance) > slack)
                    tree->racing[kept++] = tree->racing[j];
            }
            n_racing = kept;
            if (n_racing == 1 && !better_threshold(tree, lead, rest, slack))
                break;
        }
        batch = seen >> 1 > task->batch ? seen >> 1 : task->batch;
    }
    return decide_by_cells(tree, lead, rest, split);
}

/* ---- For races that rows come to one by one ---- */

int64_t ef_sum_up(ef_tree *tree, const ef_contender *c, double *its_impurity)
{
    total_of(tree, c);
    *its_impurity = impurity(tree, TOTAL(tree));
    return size_of(tree, TOTAL(tree));
}

int ef_best(ef_tree *tree, ef_contender *c, int64_t n, int64_t least, double rest)
{
    best_arm(tree, c, TOTAL(tree), n, least);
    if (c->found)
        judge(tree, c, rest);
    return c->found;
}

int ef_weigh_sides(ef_tree *tree, const ef_contender *c, int64_t *size, int64_t *on_left)
{
    int64_t *left = VECTOR(tree, 1), *missing = VECTOR(tree, 2);
    clear(tree, missing);
    int some_missing = add_bin(tree, c, 0, missing);
    left_of(tree, c, c->bin, c->missing_left, left);
    *size = size_of(tree, TOTAL(tree));
    *on_left = size_of(tree, left);
    return some_missing ? c->missing_left : -1;
}
