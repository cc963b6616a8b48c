/* Growing one tree: draw its rows, race and split nodes until done, then write it in preorder. */
#include "internal.h"

ef_word ef_ask(ef_tree *tree, int64_t work, int every_round)
{
    tree->work += work;
    if (tree->stopped)
        return EF_STOP;
    if (!tree->poll || (!every_round && tree->work < EF_WORK))
        return EF_GO;
    if (tree->work >= EF_WORK) {
        tree->work = 0;
        every_round = 0;
    }
    ef_word word = tree->poll(tree->context, every_round);
    if (word == EF_STOP)
        tree->stopped = 1;
    return word;
}

/* ---- Memory ---- */

static size_t add_aligned(size_t at, size_t bytes)
{
    return bytes > SIZE_MAX - 15 - at ? SIZE_MAX - 15 : at + ((bytes + 15) & ~(size_t)15);
}

/* The most bins that one histogram can have. */
static size_t most_bins(const ef_task *task)
{
    size_t most = (size_t)ef_most_bins(task) + 1;
    for (int32_t i = 0; i < task->n_usable; i++) {
        size_t kinds = (size_t)task->columns[task->usable[i]].categories + 1;
        most = kinds > most ? kinds : most;
    }
    return most;
}

static size_t bin_bytes(const ef_task *task)
{
    size_t width = (size_t)task->width;
    if (EF_IS_MSE(task))
        return width * sizeof(int64_t);
    return (EF_IS_SMALL || width > 4 ? width : 4) * sizeof(int32_t); /* 4: for 8 narrow cells */
}

/* Rows that a tree draws, repeated ones included. */
static size_t most_rows(const ef_task *task)
{
    return (size_t)(task->bootstrap || task->weights ? task->sample_size : task->pool);
}

/* Lay the parts of the workspace out one after the other; returns where they end. */
static size_t lay_out(ef_tree *tree, const ef_task *task, unsigned char *base)
{
    size_t at = 0, rows = most_rows(task), width = (size_t)task->width;
    size_t racing = task->max_features > 2 ? (size_t)task->max_features : 2;
    size_t bins = ef_product(racing, most_bins(task));
    if (task->sample_size > EF_LARGE && bins < 256) /* for a second look */
        bins = 256;
    size_t counts = task->weights ? 2 * (size_t)task->n : task->bootstrap ? (size_t)task->n : 0;
    size_t flags = EF_IS_SMALL ? 0 : rows;
#define PART(field, type, bytes)                                                                   \
    do {                                                                                           \
        if (base)                                                                                  \
            tree->field = (type *)(void *)(base + at);                                             \
        at = add_aligned(at, bytes);                                                               \
    } while (0)
    PART(logs, ef_real, EF_IS_ENTROPY(task) ? EF_LOGS * sizeof(ef_real) : 0);
    PART(sums, int64_t, 7 * width * sizeof(int64_t));
    PART(influences, ef_real, 4 * width * sizeof(ef_real));
    PART(contenders, ef_contender, ef_product(racing, sizeof(ef_contender)));
    PART(cells, void, ef_product(bins, bin_bytes(task)));
    PART(racing, uint32_t, racing * sizeof(uint32_t));
    PART(rows, ef_row, ef_product(rows, sizeof(ef_row)));
    PART(numbers, uint16_t, width * sizeof(uint16_t));
    PART(features, uint16_t, (size_t)task->n_usable * sizeof(uint16_t));
    if (!EF_IS_SMALL)
        PART(notes, uint32_t, ef_product(rows, sizeof(uint32_t)));
    if (task->weights) /* while rows are drawn; then `flags` lie there */
        PART(times16, uint16_t, counts > flags ? counts : flags);
    else
        PART(times8, uint8_t, counts > flags ? counts : flags);
    if (base && !EF_IS_SMALL)
        tree->flags = task->weights ? (uint8_t *)tree->times16 : tree->times8;
    if (base && !task->weights && !task->bootstrap)
        tree->times8 = NULL;
#undef PART
    return at;
}

static const char *rows_wrong(const ef_task *task)
{
    int64_t n = task->n, pool = task->pool;
    EF_NEED(1 <= n && n <= EF_MOST_ROWS, "rows must be from 1 to 1073741823");
    EF_NEED(1 <= pool && (task->patch ? pool <= n : pool == n),
            "pool must be the number of rows in the patch, or of all rows");
    EF_NEED(1 <= task->sample_size && task->sample_size <= pool,
            "sample_size must be from 1 to the rows of the pool");
    for (int64_t i = 0; task->patch && i < pool; i++)
        EF_NEED(task->patch[i] < n, "patch has a row that is not in the data");
    for (int64_t i = 0; task->weights && i < pool; i++)
        EF_NEED(task->weights[i] <= task->weights[i + 1],
                "weights must be running sums, in ascending order");
    EF_NEED(!task->weights || (task->weights[pool] && task->weights[pool] <= EF_MASK),
            "weights must have a sum from 1 to 1073741823");
    for (int64_t i = 0; !EF_IS_MSE(task) && i < n; i++)
        EF_NEED(ef_label(task, (uint32_t)i) < (uint32_t)task->width,
                "y has a label that is not one of the classes");
    return NULL;
}

const char *ef_task_wrong(const ef_task *task, int32_t m)
{
    int moments = EF_IS_PAPER(task) ? 5 : 3;
    EF_NEED(1 <= m && m <= EF_FEATURE, "features must be from 1 to 16383");
    EF_NEED(1 <= task->n_usable && task->n_usable <= m,
            "usable must have from 1 to all of the features");
    for (int32_t i = 0; i < task->n_usable; i++)
        EF_NEED(task->usable[i] < m, "usable has a feature that is not one of the columns");
    EF_NEED(task->criterion <= EF_MSE && task->splitter <= EF_EXACT,
            "criterion or splitter is unknown; see ef_criterion and ef_splitter");
    EF_NEED((task->criterion == EF_GINI || EF_IS_ENTROPY(task) || EF_IS_MSE(task)) &&
                (task->splitter != EF_PAPER || EF_IS_PAPER(task)),
            "the kernel was compiled without this criterion or splitter");
    EF_NEED(EF_IS_MSE(task) ? task->width == moments && task->y16
                                      : 1 <= task->width && task->width <= EF_CLASSES &&
                                            (task->y8 || task->y16),
            "width must be from 1 to 4096 classes; a regression has 3 moments (paper: 5) and y16");
    EF_NEED(1 <= task->max_features && task->max_features <= task->n_usable,
            "max_features must be from 1 to the number of usable features");
    EF_NEED(2 <= task->n_bins && task->n_bins <= 255, "n_bins must be from 2 to 255");
    EF_NEED(1 <= task->batch && task->batch <= EF_MASK, "batch must be from 1 to 1073741823");
    EF_NEED(0 <= task->max_depth && task->max_depth <= EF_MASK && 1 <= task->min_samples_leaf &&
                task->min_samples_leaf <= EF_MASK && 2 <= task->min_samples_split &&
                task->min_samples_split <= EF_MASK && 2 <= task->max_leaf_nodes &&
                task->max_leaf_nodes <= EF_MASK && task->mask == EF_MASK,
            "max_depth must be from 0, min_samples_leaf from 1, min_samples_split and "
            "max_leaf_nodes from 2, each to 1073741823, and mask must be that");
    EF_NEED(1 <= task->scale && task->scale <= EF_LEVELS, "scale must be from 1 to 65535");
    for (int32_t f = 0; f < m; f++) {
        const ef_column *c = task->columns + f;
        const char *wrong = ef_column_wrong(c);
        EF_NEED(!wrong, wrong);
        EF_NEED(c->categories || !task->raw == !!c->bounds,
                "bounds must be given for every column of numbers, or for none if raw");
    }
    return rows_wrong(task);
}

size_t ef_workspace_bytes(const ef_task *task) { return lay_out(NULL, task, NULL); }

void ef_tree_begin(ef_tree *tree, const ef_task *task, uint32_t index, void *workspace)
{
    memset(tree, 0, sizeof *tree);
    tree->task = task;
    tree->left = tree->most = -1;
    tree->most_bins = most_bins(task);
    lay_out(tree, task, workspace);
    ef_rng_begin(&tree->rng, task->seed, index + 1);
    if (EF_IS_ENTROPY(task)) {
        tree->logs[0] = 0.0;
        for (int i = 1; i < EF_LOGS; i++)
            tree->logs[i] = ef_ln((ef_real)i);
    }
}

/* ---- Drawing rows ---- */

static void shuffle(ef_rng *rng, ef_row *values, size_t n, size_t count)
{
    for (size_t i = 0; i < count && i + 1 < n; i++) {
        size_t j = i + ef_rng_below(rng, (uint32_t)(n - i));
        ef_row value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}

static void fill(ef_rng *rng, ef_row *values, size_t count, uint32_t n)
{
    if (sizeof *values == sizeof(uint32_t))
        ef_rng_fill(rng, (uint32_t *)(void *)values, count, n);
    else
        for (size_t i = 0; i < count; i++)
            values[i] = (ef_row)ef_rng_below(rng, n);
}

static void draw_weighted(ef_tree *tree)
{
    const ef_task *task = tree->task;
    const uint32_t *weights = task->weights;
    uint64_t total = weights[task->pool], size = (uint64_t)task->sample_size;
    total = total < 1 ? 1 : total > EF_MASK ? EF_MASK : total; /* data may have changed */
    uint64_t stretch = total / size ? total / size : 1;
    for (uint64_t i = 0; i < size; i++) {
        uint64_t mark = ef_rng_below(&tree->rng, (uint32_t)(task->bootstrap ? total : stretch));
        if (!task->bootstrap)
            mark += i * total / size;
        uint32_t low = 0, high = (uint32_t)task->pool - 1;
        while (low < high) {
            uint32_t middle = (low + high) >> 1;
            if (weights[middle + 1] <= mark)
                low = middle + 1;
            else
                high = middle;
        }
        tree->rows[i] = (ef_row)low;
    }
    if (!task->bootstrap)
        shuffle(&tree->rng, tree->rows, (size_t)size, (size_t)size);
}

/* Nodes.draw: fill `rows` with the tree's rows in random order; returns how many. */
static int64_t draw_rows(ef_tree *tree)
{
    const ef_task *task = tree->task;
    ef_row *rows = tree->rows;
    size_t size = (size_t)task->sample_size, pool = (size_t)task->pool;
    if (task->weights) {
        draw_weighted(tree);
    } else if (task->bootstrap) {
        fill(&tree->rng, rows, size, (uint32_t)pool);
    } else {
        for (size_t i = 0; i < pool; i++)
            rows[i] = (ef_row)i;
        shuffle(&tree->rng, rows, pool, size);
    }
    if (task->patch)
        for (size_t i = 0; i < size; i++) {
            uint32_t row = task->patch[rows[i]];
            rows[i] = (ef_row)(row < task->n ? row : 0); /* data may have changed */
        }
    tree->rows_read += task->sample_size;
    /* A row that was drawn more than once is stored once, with its count. */
    size_t front = 0;
    if (tree->times16) {
        uint16_t *times = tree->times16;
        memset(times, 0, (size_t)task->n * sizeof *times);
        for (size_t i = 0; i < size; i++) {
            ef_row row = rows[i];
            rows[front] = row;
            front += times[row] == 0;
            times[row] = (uint16_t)(times[row] + (times[row] < 65535));
        }
    } else if (tree->times8) {
        uint8_t *times = tree->times8;
        memset(times, 0, (size_t)task->n);
        for (size_t i = 0; i < size; i++) {
            ef_row row = rows[i];
            rows[front] = row;
            front += times[row] == 0;
            times[row] = (uint8_t)(times[row] + (times[row] < 255));
        }
    } else {
        front = size;
    }
    for (size_t i = 0; !EF_IS_SMALL && i < front; i++)
        tree->notes[i] = ef_label(task, rows[i]) | ef_times(tree, rows[i]) << 16;
    return (int64_t)front;
}

/* ---- Splitting ---- */

#ifdef EF_BOARD
/* Nodes.partition as it is written there: swap the first row on the wrong side with the last one, and
 * so on inwards. Returns where the right side begins. */
static int64_t partition(ef_tree *tree, const ef_node *node)
{
    const ef_column *c = tree->task->columns + (node->feature & EF_FEATURE);
    const unsigned char *values = c->values;
    ptrdiff_t step = c->step;
    ef_row *low = tree->rows + node->start, *high = tree->rows + node->end - 1;
    uint8_t missing = (node->feature & EF_MISSING_LEFT) != 0, goes_left[256];
    for (int v = 0; v < 256; v++)
        goes_left[v] = node->feature & EF_EQUAL ? v == node->code : v <= node->code;
    goes_left[0] = missing;
    for (;;) {
        while (low <= high && goes_left[values[*low * step]])
            low++;
        while (low <= high && !goes_left[values[*high * step]])
            high--;
        if (low > high)
            return low - tree->rows;
        ef_row row = *low;
        *low++ = *high;
        *high-- = row;
    }
}
#else
/* Find whether each of these rows goes left; returns how many do. */
static int64_t choose_sides(ef_tree *tree, const ef_node *node, int64_t start, int64_t end)
{
    const ef_column *c = tree->task->columns + (node->feature & EF_FEATURE);
    const ef_row *rows = tree->rows;
    uint8_t *flags = tree->flags;
    uint8_t missing = (node->feature & EF_MISSING_LEFT) != 0;
    int64_t count = 0, i = start;
    if (!EF_IS_CODES(c)) { /* codes are at most `code` where numbers are at most its bound */
        for (; i < end; i++) {
            float x = ef_value(c, rows[i]);
            flags[i] = x == x ? x <= node->threshold : missing;
            count += flags[i];
            if (x - x != 0.0f && x == x)
                tree->infinite = 1;
        }
        return count;
    }
    const unsigned char *values = c->values;
    ptrdiff_t step = c->step;
    /* Codes on the left are `first` and the next few. */
    int equal = (node->feature & EF_EQUAL) != 0, first = equal ? node->code : !missing;
    unsigned some = equal ? 1 : 1u + node->code - (unsigned)first;
    enum { AHEAD = 48 };
    for (; equal && missing && i < end; i++) { /* rare */
        uint8_t v = values[(ptrdiff_t)rows[i] * step];
        flags[i] = v == 0 || v == node->code;
        count += flags[i];
    }
    for (; i + AHEAD < end; i++) {
        EF_PREFETCH(values + (ptrdiff_t)rows[i + AHEAD] * step);
        uint8_t v = values[(ptrdiff_t)rows[i] * step];
        flags[i] = (uint8_t)(v - first) < some;
        count += flags[i];
    }
    for (; i < end; i++) {
        uint8_t v = values[(ptrdiff_t)rows[i] * step];
        flags[i] = (uint8_t)(v - first) < some;
        count += flags[i];
    }
    return count;
}

/* Nodes.partition: swap the first row on the wrong side with the last one, and so on inwards. These
 * rows are found without a branch, a few hundred at a time. Returns where the right side begins. */
static int64_t partition(ef_tree *tree, const ef_node *node)
{
    enum { BLOCK = 256 };
    int64_t start = node->start, end = node->end;
    int64_t middle = start + choose_sides(tree, node, start, end);
    const uint8_t *flags = tree->flags;
    ef_row *rows = tree->rows;
    uint32_t *notes = tree->notes;
    uint32_t wrong_low[BLOCK], wrong_high[BLOCK];
    int64_t low = start, high = end;
    int n_low = 0, n_high = 0, from_low = 0, from_high = 0;
    for (;;) {
        if (n_low == 0) {
            from_low = 0;
            while (n_low == 0 && low < middle) {
                int64_t to = middle - low < BLOCK ? middle : low + BLOCK;
                for (; low < to; low++) {
                    wrong_low[n_low] = (uint32_t)low;
                    n_low += !flags[low];
                }
            }
        }
        if (n_high == 0) {
            from_high = 0;
            while (n_high == 0 && high > middle) {
                int64_t to = high - middle < BLOCK ? middle : high - BLOCK;
                for (; high > to; high--) {
                    wrong_high[n_high] = (uint32_t)(high - 1);
                    n_high += flags[high - 1];
                }
            }
        }
        int n = n_low < n_high ? n_low : n_high;
        if (n == 0)
            return middle; /* each side has the same number of wrong rows */
        for (int i = 0; i < n; i++) {
            uint32_t a = wrong_low[from_low + i], b = wrong_high[from_high + i];
            ef_row row = rows[a];
            uint32_t note = notes[a];
            rows[a] = rows[b];
            rows[b] = row;
            notes[a] = notes[b];
            notes[b] = note;
        }
        n_low -= n;
        n_high -= n;
        from_low += n;
        from_high += n;
    }
}

#endif

/* ---- Growing ---- */

/* Rows that the races of a subtree would count. */
static int64_t demand(const ef_task *task, int64_t n, int64_t depth)
{
    int64_t total = 0, rows = EF_RACE_ROWS;
    for (int64_t level = task->max_depth - depth; level > 0 && n > 0; level--) {
        total += rows < n ? rows : n;
        rows *= 2;
        if (rows > 2 * n * task->min_samples_split)
            break; /* smaller nodes are leaves */
    }
    return total;
}

/* How many draws rows start .. end stand for; counted only if min_samples_leaf depends on it. */
static int64_t draws(const ef_tree *tree, int64_t start, int64_t end)
{
    if (end - start >= tree->task->min_samples_leaf)
        return end - start;
    int64_t total = 0;
    for (int64_t i = start; i < end; i++)
        total += ef_times_at(tree, i);
    return total;
}

static int may_split(ef_tree *tree, int64_t start, int64_t end, int64_t depth)
{
    const ef_task *task = tree->task;
    int64_t least = 2 * task->min_samples_leaf;
    if (least < task->min_samples_split)
        least = task->min_samples_split;
    if (depth >= task->max_depth || end - start < 2 || draws(tree, start, end) < least)
        return 0;
    if (tree->left == 0 || ef_ask(tree, 0, 1) != EF_GO)
        return 0;
    uint32_t first = ef_label_at(tree, start);
    for (int64_t i = start + 1; i < end; i++) /* a node of one label only needs no race */
        if (ef_label_at(tree, i) != first)
            return 1;
    return 0;
}

static int64_t add_node(ef_tree *tree, int64_t start, int64_t end, int64_t depth)
{
    ef_node *node = tree->nodes + tree->n_nodes;
    memset(node, 0, sizeof *node);
    node->start = (uint32_t)start;
    node->end = (uint32_t)end;
    node->depth = (uint16_t)depth;
    node->feature = EF_LEAF;
    return tree->n_nodes++;
}

static int waits(const ef_node *node) { return node->feature != EF_LEAF && !node->left; }

/* Race the next node that was not raced yet, and note its split. */
static void race_next(ef_tree *tree)
{
    const ef_task *task = tree->task;
    int64_t place = tree->raced;
    if (tree->free_order) {
        place = (int64_t)tree->stack - 1;
        tree->stack = tree->nodes[place].right;
    }
    ef_node *node = tree->nodes + place;
    int64_t start = node->start, end = node->end, n = end - start;
    ef_split split;
    int found = 0;
    if (may_split(tree, start, end, node->depth)) {
        /* Each node has its own random stream: the order of growth changes nothing. */
        ef_rng_begin(&tree->rng, tree->key ^ node->start, node->end);
        memcpy(tree->features, task->usable, (size_t)task->n_usable * sizeof *tree->features);
        found = ef_race(tree, start, end, &split);
    }
    if (found && split.gain * (ef_real)n / (ef_real)tree->size >= task->min_impurity_decrease) {
        const ef_column *c = task->columns + split.feature;
        node->feature = (uint16_t)(split.feature | (split.equal ? EF_EQUAL : 0) |
                                   (split.missing_left ? EF_MISSING_LEFT : 0));
        node->code = split.code;
        node->gain = (float)split.gain;
        node->threshold = split.code < c->last || split.equal ? (float)ef_bound(c, split.code)
                                                              : EF_HUGE;
    }
    if (waits(node)) /* its own race is over, those below are to come */
        tree->wanted -= n < EF_RACE_ROWS ? n : EF_RACE_ROWS;
    else
        tree->wanted -= demand(task, n, node->depth);
    if (tree->free_order && waits(node))
        tree->waiting = place + 1;
    tree->raced++;
}

/* The node to split next: the first that waits, or the one that gains most; -1 if none does.
 *
 * Without any limit the order does not matter, and subtrees are finished one by one, while their
 * rows are in the cache: at most one node waits then, and those not raced yet are a stack, linked through
 * `right`. */
static int64_t next_to_split(ef_tree *tree)
{
    if (tree->free_order) {
        int64_t node = tree->waiting - 1;
        tree->waiting = 0;
        return node;
    }
    while (tree->waiting < tree->raced && !waits(tree->nodes + tree->waiting))
        tree->waiting++;
    int64_t node = tree->waiting;
    if (node == tree->raced || tree->leaves == tree->task->max_leaf_nodes)
        return -1;
    if (tree->task->max_leaf_nodes < (int64_t)tree->task->mask) {
        ef_real most = -1.0;
        for (int64_t i = tree->waiting; i < tree->raced; i++) {
            const ef_node *one = tree->nodes + i;
            ef_real worth = (ef_real)one->gain * (ef_real)(one->end - one->start);
            if (waits(one) && worth > most) {
                node = i;
                most = worth;
            }
        }
    }
    return node;
}

/* Nodes of that many rows, or fewer, were surely counted whole by their race. */
static int64_t counted_whole(const ef_tree *tree)
{
    const ef_task *task = tree->task;
    if (task->splitter == EF_EXACT)
        return EF_MASK;
    return tree->limited || tree->left >= 0 || task->splitter != EF_MAB ? EF_GROUP_ROWS
                                                                        : EF_EXACT_BELOW;
}

ef_status ef_tree_grow(ef_tree *tree, int64_t insertions)
{
    const ef_task *task = tree->task;
    int64_t until = tree->insertions + insertions;
    if (!tree->begun) {
        if (tree->room < 1)
            return EF_FULL;
        tree->begun = 1;
        tree->free_order = tree->left < 0 && tree->most < 0 && !tree->limited &&
                           task->max_leaf_nodes == (int64_t)task->mask;
        tree->size = draw_rows(tree);
        tree->key = ef_rng_next(&tree->rng);
        add_node(tree, 0, tree->size, 0);
        tree->wanted = demand(task, tree->size, 0);
        tree->leaves = tree->stack = 1;
    }
    for (;;) {
        while (tree->free_order ? tree->stack && !tree->waiting : tree->raced < tree->n_nodes) {
            if (tree->stopped)
                return EF_STOPPED;
            if (tree->insertions >= until)
                return EF_MORE;
            race_next(tree);
        }
        if (tree->stopped)
            return EF_STOPPED;
        if (tree->n_nodes + 2 > tree->room && (tree->most < 0 || tree->room < tree->most))
            return EF_FULL;
        int64_t place = next_to_split(tree);
        if (place < 0 || (tree->most >= 0 && tree->n_nodes + 2 > tree->most))
            return EF_DONE;
        ef_node *node = tree->nodes + place;
        int64_t start = node->start, end = node->end, n = end - start;
        int64_t below = demand(task, n, node->depth) - (n < EF_RACE_ROWS ? n : EF_RACE_ROWS);
        int64_t middle = partition(tree, node);
        tree->work += n;
        if (task->min_samples_leaf > draws(tree, start, middle) ||
            task->min_samples_leaf > draws(tree, middle, end)) {
            node->feature = EF_LEAF; /* the counted rows promised more than there are */
            tree->wanted -= below;
            continue;
        }
        tree->leaves++;
        /* The race saw some rows; the gain is computed from all of them. */
        if (n > counted_whole(tree))
            node->gain = (float)ef_gain(tree, start, middle, end);
        node->left = (uint32_t)add_node(tree, start, middle, node->depth + 1);
        node->right = (uint32_t)add_node(tree, middle, end, node->depth + 1);
        if (tree->free_order) {
            tree->nodes[node->right].right = tree->stack;
            tree->nodes[node->left].right = node->right + 1;
            tree->stack = node->left + 1;
        }
        tree->wanted += demand(task, middle - start, node->depth + 1);
        tree->wanted += demand(task, end - middle, node->depth + 1);
        tree->wanted -= below;
    }
}

/* ---- Leaves and preorder ---- */

int64_t ef_tree_close(ef_tree *tree)
{
    int64_t leaves = 0;
    if (tree->n_nodes == 0) { /* stopped before it began */
        tree->size = draw_rows(tree);
        add_node(tree, 0, tree->size, 0);
    }
    for (int64_t i = 0; i < tree->n_nodes; i++) {
        ef_node *node = tree->nodes + i;
        if (!node->left) {
            node->feature = EF_LEAF;
            leaves++;
        }
    }
    return leaves;
}

/* The votes of a leaf: shares of `scale`, rounded so that they add up. */
static void write_votes(ef_tree *tree, const ef_node *node, uint16_t *votes)
{
    const ef_task *task = tree->task;
    uint64_t scale = task->scale, n = 0, total = 0, before = 0;
    int64_t *counts = tree->sums;
    memset(counts, 0, (size_t)task->width * sizeof *counts);
    ef_sum_rows(tree, node->start, node->end, counts);
    if (EF_IS_MSE(task)) {
        n = (uint64_t)counts[0];
        total = (uint64_t)counts[1];
        votes[0] = (uint16_t)((2 * total * scale + n * EF_LEVELS) / (2 * n * EF_LEVELS));
        return;
    }
    for (int32_t k = 0; k < task->width; k++)
        n += (uint64_t)counts[k];
    for (int32_t k = 0; k < task->width; k++) {
        total += (uint64_t)counts[k];
        uint64_t upto = (2 * total * scale + n) / (2 * n);
        votes[k] = (uint16_t)(upto - before);
        before = upto;
    }
}

static void write_right(uint16_t *right16, uint32_t *right32, uint32_t at, uint32_t value)
{
    if (right16)
        right16[at] = (uint16_t)value;
    else
        right32[at] = value;
}

void ef_tree_write(ef_tree *tree, uint32_t here, uint32_t votes_here, uint16_t *feature,
                   float *threshold, uint16_t *right16, uint32_t *right32, uint16_t *votes,
                   ef_real *importance)
{
    size_t width = EF_IS_MSE(tree->task) ? 1 : (size_t)tree->task->width;
    /* In a node that was written, `start` is its place: its rows are not needed any more. Nodes
     * whose right child is still to be written are a stack, linked through `end`. */
    uint32_t at = 0, leaf = 0, node = 0, above = UINT32_MAX;
    for (;;) {
        ef_node *one = tree->nodes + node;
        feature[at] = one->feature;
        threshold[at] = one->threshold;
        if (one->left) {
            ef_real part = (ef_real)(one->end - one->start) / (ef_real)tree->size;
            importance[one->feature & EF_FEATURE] += (ef_real)one->gain * part;
            one->start = at++;
            one->end = above;
            above = node;
            node = one->left;
            continue;
        }
        write_votes(tree, one, votes + leaf * width);
        write_right(right16, right32, at++, votes_here + leaf++);
        if (above == UINT32_MAX)
            return;
        one = tree->nodes + above;
        above = one->end;
        write_right(right16, right32, one->start, here + at);
        node = one->right;
    }
}
