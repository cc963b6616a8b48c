/* Grows trees over a grid of options in memory that is exactly as large as the kernel asks for, and
 * checks what has to hold of every tree. Compiled with sanitizers by test_kernel_c.py, so that a
 * byte read or written beside it, or a sum that overflows, ends the program. Then what is wrong is
 * handed over, and data that change while trees grow: refused, or harmless.
 *
 * usage: kernel_check [cases]
 */
#include "../firmware/kernel/edgeforest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASK 0x3FFFFFFF
#define MOST_COLUMNS 9

static long number; /* of the case, for messages */

#define CHECK(holds)                                                                               \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "case %ld, line %d: %s\n", number, __LINE__, #holds);                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- Random choices, not by the kernel's own generator ---- */

static uint64_t state = 88172645463325252u;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 20) % n);
}

static int64_t pick(const int64_t *values, uint32_t n) { return values[below(n)]; }
#define PICK(...)                                                                                  \
    pick((const int64_t[]){__VA_ARGS__},                                                           \
         (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static void *take(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    CHECK(memory);
    memset(memory, 0xA5, bytes); /* nobody may count on zeros */
    return memory;
}

/* ---- Data ---- */

enum { RAW, ROW_MAJOR, BY_COLUMN, NUMBERS, MIXED, LAYOUTS };

typedef struct {
    ef_column columns[MOST_COLUMNS];
    void *buffers[MOST_COLUMNS], *grids[MOST_COLUMNS], *bounds[MOST_COLUMNS];
    size_t bytes[MOST_COLUMNS]; /* of the buffers */
    int32_t m;
} Data;

static const size_t SIZES[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

/* A number of that type at `p`: few distinct ones, or many, now and then none. */
static void put(unsigned char *p, int type, int sort, int gaps)
{
    double x = sort == 0   ? (double)below(3)
               : sort == 1 ? (double)below(1000000) / 1000.0 - 500.0
               : sort == 2 ? exp((double)below(1000) / 50.0)
               : sort == 3 ? (double)(below(100) == 0)
                           : 7.0;
    int missing = gaps && below(6) == 0;
    double small = fabs(fmod(x, 100.0));
#define PUT(TYPE, VALUE)                                                                           \
    do {                                                                                           \
        TYPE v = (TYPE)(VALUE);                                                                    \
        memcpy(p, &v, sizeof v);                                                                   \
    } while (0)
    switch (type) {
    case EF_I8: PUT(int8_t, small - 50.0); break;
    case EF_CODES:
    case EF_U8: PUT(uint8_t, small + 1.0); break;
    case EF_I16: PUT(int16_t, fmod(x, 30000.0)); break;
    case EF_U16: PUT(uint16_t, fabs(fmod(x, 60000.0))); break;
    case EF_I32: PUT(int32_t, x); break;
    case EF_U32: PUT(uint32_t, fabs(x)); break;
    case EF_I64: PUT(int64_t, x * 1e9); break;
    case EF_U64: PUT(uint64_t, fabs(x) * 1e9); break;
    case EF_F32: PUT(float, missing ? (double)NAN : x); break;
    default: PUT(double, missing ? (double)NAN : x * 1e20); break;
    }
}

static void make_numbers(Data *data, int32_t f, size_t n, int type, int gaps)
{
    size_t size = SIZES[type], step = size * (1 + below(3));
    int sort = (int)below(5);
    unsigned char *values = take((n - 1) * step + size); /* not a byte after the last one */
    for (size_t i = 0; i < n; i++)
        put(values + i * step, type, sort, gaps);
    ef_column *c = data->columns + f;
    memset(c, 0, sizeof *c);
    c->type = (uint8_t)type;
    c->values = values;
    c->step = (ptrdiff_t)step;
    data->buffers[f] = values;
    data->bytes[f] = (n - 1) * step + size;
    if (below(4) == 0 && n > 1) { /* backwards */
        c->values = values + (n - 1) * step;
        c->step = -(ptrdiff_t)step;
    }
    float *sample = take(n * sizeof(float)), *spare = take(n * sizeof(float));
    float *bounds = data->bounds[f] = take(EF_BOUNDS * sizeof(float));
    uint32_t *rows = take(n * sizeof(uint32_t));
    for (size_t i = 0; i < n; i++)
        rows[i] = (uint32_t)i;
    ef_floats(c, rows, n, sample);
    c->last = ef_make_bounds(sample, n, spare, bounds) - 1;
    CHECK(1 <= c->last && c->last <= 255);
    for (int32_t i = 2; i < c->last; i++)
        CHECK(bounds[i - 1] < bounds[i]);
    c->bounds = bounds;
    ef_grid(c, data->grids[f] = take(EF_GRID + 2));
    free(sample);
    free(spare);
    free(rows);
    uint8_t *codes = take(n);
    CHECK(ef_encode(c, 0, n, codes, 1) == -1);
    for (size_t i = 0; i < n; i++) {
        float x;
        uint32_t row = (uint32_t)i;
        ef_floats(c, &row, 1, &x);
        int code = x == x; /* the truth, slowly */
        while (code && code < c->last && bounds[code] < x)
            code++;
        CHECK(codes[i] == code);
    }
    free(codes);
}

static void make_data(Data *data, size_t n, int32_t m, int layout, int gaps)
{
    memset(data, 0, sizeof *data);
    data->m = m;
    if (layout == RAW || layout == ROW_MAJOR || layout == BY_COLUMN) {
        int by_row = layout == ROW_MAJOR || (layout == RAW && below(2));
        uint8_t *codes = data->buffers[0] = take(n * (size_t)m);
        data->bytes[0] = n * (size_t)m;
        for (int32_t f = 0; f < m; f++) {
            ef_column *c = data->columns + f;
            c->values = codes + (by_row ? (size_t)f : (size_t)f * n);
            c->step = by_row ? m : 1;
            c->last = layout == RAW ? 255 : (int32_t)PICK(1, 2, 9, 255);
            if (layout != RAW && below(3) == 0)
                c->categories = (uint8_t)(c->last > 254 ? c->last = 254 : c->last);
            else if (layout != RAW) {
                float *bounds = data->bounds[f] = take(EF_BOUNDS * sizeof(float));
                for (int i = 0; i < EF_BOUNDS; i++)
                    bounds[i] = (float)i * 0.5f;
                c->bounds = bounds;
            }
            int constant = below(8) == 0;
            for (size_t i = 0; i < n; i++) {
                uint32_t code = constant ? 1 : 1 + below((uint32_t)c->last);
                if (layout == RAW ? below(9) == 0 : gaps && below(6) == 0)
                    code = 0;
                codes[by_row ? i * (size_t)m + (size_t)f : (size_t)f * n + i] = (uint8_t)code;
            }
        }
        return;
    }
    for (int32_t f = 0; f < m; f++) {
        if (layout == MIXED && below(2)) { /* categories beside numbers */
            ef_column *c = data->columns + f;
            uint8_t *codes = data->buffers[f] = take(n);
            data->bytes[f] = n;
            c->last = c->categories = (uint8_t)PICK(1, 2, 7, 254);
            c->values = codes;
            c->step = 1;
            for (size_t i = 0; i < n; i++)
                codes[i] = (uint8_t)(below((uint32_t)c->last) + (gaps ? below(2) : 1));
        } else {
            make_numbers(data, f, n, EF_I8 + (int)((uint32_t)(number + f) % 10), gaps);
        }
    }
}

static void free_data(Data *data)
{
    for (int32_t f = 0; f < MOST_COLUMNS; f++) {
        free(data->buffers[f]);
        free(data->grids[f]);
        free(data->bounds[f]);
    }
}

/* ---- One tree ---- */

/* Write noise over some of the data. */
static void scramble(Data *data)
{
    for (int32_t f = 0; f < data->m; f++)
        for (int i = 0; data->bytes[f] && i < 40; i++)
            ((uint8_t *)data->buffers[f])[below((uint32_t)data->bytes[f])] = (uint8_t)below(256);
}

typedef struct {
    int64_t calls, until; /* -1: never */
    ef_word word;
    Data *altered; /* at every call, or NULL */
} Watch;

static ef_word watch(void *context, int every_round)
{
    Watch *w = context;
    (void)every_round;
    w->calls++;
    if (w->altered)
        scramble(w->altered);
    return w->until >= 0 && w->calls > w->until ? w->word : EF_GO;
}

typedef struct {
    uint16_t *feature, *votes;
    float *threshold;
    uint32_t *right;
    ef_real *importance;
    int64_t nodes, leaves, insertions, rounds;
} Grown;

static void free_grown(Grown *g)
{
    free(g->feature);
    free(g->votes);
    free(g->threshold);
    free(g->right);
    free(g->importance);
}

/* The node after the subtree at `at`, which is in preorder; counts its leaves. */
static int64_t subtree(const Grown *g, int64_t at, int64_t here, int64_t votes_here, int64_t *leaf)
{
    CHECK(at < g->nodes);
    if (g->feature[at] == EF_LEAF) {
        CHECK((int64_t)g->right[at] == votes_here + *leaf);
        (*leaf)++;
        return at + 1;
    }
    int64_t next = subtree(g, at + 1, here, votes_here, leaf);
    CHECK((int64_t)g->right[at] == here + next);
    return subtree(g, next, here, votes_here, leaf);
}

static void check_grown(const ef_task *task, const Grown *g, int64_t here, int64_t votes_here,
                        int steady)
{
    int64_t leaf = 0, width = task->criterion == EF_MSE ? 1 : task->width;
    CHECK(subtree(g, 0, here, votes_here, &leaf) == g->nodes);
    CHECK(leaf == g->leaves && g->nodes == 2 * g->leaves - 1);
    for (int64_t i = 0; i < g->nodes; i++) {
        if (g->feature[i] == EF_LEAF)
            continue;
        int known = 0;
        for (int32_t k = 0; k < task->n_usable; k++)
            known |= task->usable[k] == (g->feature[i] & EF_FEATURE);
        CHECK(known);
        CHECK(g->threshold[i] == g->threshold[i]);
        int equal = task->columns[g->feature[i] & EF_FEATURE].categories > 0;
        CHECK(equal == ((g->feature[i] & EF_EQUAL) != 0));
    }
    for (int64_t i = 0; i < g->leaves; i++) {
        uint32_t sum = 0;
        for (int64_t k = 0; k < width; k++)
            sum += g->votes[i * width + k];
        CHECK(task->criterion == EF_MSE ? sum <= task->scale : sum == task->scale);
    }
    for (int32_t k = 0; k < task->n_usable; k++) {
        ef_real gain = g->importance[task->usable[k]];
        CHECK((gain >= 0.0 || !steady) && gain - gain == 0.0);
    }
}

typedef struct {
    int64_t budget, most, piece, more_room;
    int limited;
    Watch watch;
} Manner;

/* Grow a tree in this manner, and check all that can be seen of it. */
static Grown grow(const ef_task *task, int32_t m, uint32_t index, Manner how)
{
    void *workspace = take(ef_workspace_bytes(task));
    ef_tree tree;
    ef_status status;
    ef_tree_begin(&tree, task, index, workspace);
    tree.left = how.budget;
    tree.most = how.most;
    tree.limited = (uint8_t)how.limited;
    tree.poll = watch;
    tree.context = &how.watch;
    do {
        status = ef_tree_grow(&tree, how.piece);
        CHECK(tree.n_nodes <= tree.room);
        CHECK(how.budget < 0 || tree.insertions <= how.budget);
        if (status == EF_FULL) { /* a new place, exactly as large as it says */
            int64_t room = tree.room + how.more_room;
            if (how.most > 0 && room > how.most)
                room = how.most;
            CHECK(room > tree.room);
            ef_node *nodes = take((size_t)room * sizeof *nodes);
            if (tree.room)
                memcpy(nodes, tree.nodes, (size_t)tree.n_nodes * sizeof *nodes);
            free(tree.nodes);
            tree.nodes = nodes;
            tree.room = room;
        }
    } while (status == EF_FULL || status == EF_MORE);
    CHECK(status == EF_DONE || (status == EF_STOPPED && how.watch.word == EF_STOP));
    if (!tree.room) {
        tree.nodes = take(sizeof *tree.nodes);
        tree.room = 1;
    }
    CHECK(!tree.infinite || how.watch.altered);
    Grown g;
    g.leaves = ef_tree_close(&tree);
    g.nodes = tree.n_nodes;
    g.insertions = tree.insertions;
    g.rounds = tree.rounds;
    CHECK(how.budget < 0 || g.insertions <= how.budget);
    CHECK(how.most < 0 || g.nodes <= how.most);
    CHECK(g.leaves <= task->max_leaf_nodes);
    int64_t rows = 0;
    for (int64_t i = 0; i < g.nodes; i++) {
        const ef_node *node = tree.nodes + i;
        CHECK(node->start < node->end && node->end <= tree.size);
        CHECK(node->depth <= task->max_depth);
        if (node->left) {
            const ef_node *left = tree.nodes + node->left, *right = tree.nodes + node->right;
            CHECK(left->start == node->start && left->end == right->start);
            CHECK(right->end == node->end);
            continue;
        }
        int64_t draws = 0;
        for (uint32_t k = node->start; k < node->end; k++) {
            uint32_t row = tree.rows[k];
            CHECK(row < task->n);
            if (tree.notes) { /* what lies beside a row was moved with it */
                uint32_t label = task->y8 ? task->y8[row] : task->y16[row];
                CHECK((tree.notes[k] & 65535u) == label && tree.notes[k] >> 16);
                draws += tree.notes[k] >> 16;
                continue;
            }
            draws += tree.times8 ? tree.times8[row] : tree.times16 ? tree.times16[row] : 1;
        }
        CHECK(i == 0 || draws >= task->min_samples_leaf);
        rows += node->end - node->start;
    }
    CHECK(rows == tree.size);
    int64_t width = task->criterion == EF_MSE ? 1 : task->width;
    g.feature = take((size_t)g.nodes * sizeof *g.feature);
    g.threshold = take((size_t)g.nodes * sizeof *g.threshold);
    g.right = take((size_t)g.nodes * sizeof *g.right);
    g.votes = take((size_t)(g.leaves * width) * sizeof *g.votes);
    g.importance = take((size_t)m * sizeof *g.importance);
    for (int32_t f = 0; f < m; f++)
        g.importance[f] = 0.0;
    uint32_t here = below(1000), votes_here = below(1000);
    uint16_t *right16 = below(2) ? take((size_t)g.nodes * sizeof *right16) : NULL;
    ef_tree_write(&tree, here, votes_here, g.feature, g.threshold, right16, g.right, g.votes,
                  g.importance);
    for (int64_t i = 0; right16 && i < g.nodes; i++)
        g.right[i] = right16[i];
    free(right16);
    check_grown(task, &g, here, votes_here, !how.watch.altered);
    for (int64_t i = 0; i < g.nodes; i++) /* as the only tree of its forest */
        g.right[i] -= g.feature[i] == EF_LEAF ? votes_here : here;
    free(tree.nodes);
    free(workspace);
    return g;
}

static void check_same(const ef_task *task, int32_t m, const Grown *a, const Grown *b)
{
    int64_t width = task->criterion == EF_MSE ? 1 : task->width;
    CHECK(a->nodes == b->nodes && a->leaves == b->leaves);
    CHECK(a->insertions == b->insertions && a->rounds == b->rounds);
    CHECK(!memcmp(a->feature, b->feature, (size_t)a->nodes * sizeof *a->feature));
    CHECK(!memcmp(a->threshold, b->threshold, (size_t)a->nodes * sizeof *a->threshold));
    CHECK(!memcmp(a->right, b->right, (size_t)a->nodes * sizeof *a->right));
    CHECK(!memcmp(a->votes, b->votes, (size_t)(a->leaves * width) * sizeof *a->votes));
    CHECK(!memcmp(a->importance, b->importance, (size_t)m * sizeof *a->importance));
}

/* Nodes for a board lead a row to the votes that ef_predict has found. Numbers of 32 bits are left
 * out of that: ef_predict rounds them to float32. */
static void check_compact(const ef_compact *nodes, const ef_rows *rows, size_t row, const Grown *g,
                          uint32_t features, const uint32_t *votes, size_t width)
{
    size_t size = SIZES[rows->type];
    if (rows->type > EF_U32 && rows->type != EF_F32)
        return;
    unsigned char *values = take(features * size);
    for (size_t f = 0; f < features; f++)
        memcpy(values + f * size,
               rows->values + (ptrdiff_t)row * rows->row_step + (ptrdiff_t)f * rows->column_step,
               size);
    const ef_compact *leaf = ef_walk(nodes, 0, values, (ef_type)rows->type, g->threshold);
    CHECK(leaf >= nodes && leaf < nodes + g->nodes && leaf->feature == EF_LEAF);
    for (size_t k = 0; size < 4 && k < width; k++)
        CHECK(g->votes[leaf->right * width + k] == votes[k]);
    free(values);
}

/* Predict rows of every type, of any number, with gaps and infinities. */
static void check_predict(const ef_task *task, int32_t m, const Grown *g)
{
    ef_packed *packed = take((size_t)g->nodes * sizeof *packed);
    uint16_t *right16 = take((size_t)g->nodes * sizeof *right16);
    uint32_t root = 0, features, leaves;
    ef_forest forest;
    for (int64_t i = 0; i < g->nodes; i++)
        right16[i] = (uint16_t)g->right[i];
    int wide = g->nodes > 65535 || below(2);
    forest.equal = ef_pack(g->feature, g->threshold, wide ? NULL : right16, wide ? g->right : NULL,
                           (size_t)g->nodes, packed, &features, &leaves);
    CHECK(forest.equal >= 0 && 1 <= features && features <= (uint32_t)m);
    CHECK(leaves == (uint32_t)g->leaves);
    forest.nodes = packed;
    forest.roots = &root;
    forest.votes = g->votes;
    forest.n_trees = 1;
    forest.width = task->criterion == EF_MSE ? 1 : (size_t)task->width;
    ef_compact *compact = take((size_t)g->nodes * sizeof *compact);
    CHECK(!ef_make_compact(g->feature, g->threshold, wide ? NULL : right16, wide ? g->right : NULL,
                           (size_t)g->nodes, compact, &features, &leaves));
    CHECK(features <= (uint32_t)m && leaves == (uint32_t)g->leaves);
    for (int type = EF_CODES; type <= EF_F64; type++) {
        size_t n = (size_t)PICK(1, 2, 7, 8, 9, 40), size = SIZES[type], columns = (size_t)m;
        unsigned char *values = take(n * columns * size);
        for (size_t i = 0; i < n * columns; i++)
            put(values + i * size, type, (int)below(5), 1);
        if (type == EF_F32)
            memcpy(values, &(float){HUGE_VALF}, sizeof(float));
        uint32_t *out = take(n * forest.width * sizeof *out), *one = take(forest.width * sizeof *one);
        ef_rows rows;
        int by_column = (int)below(2);
        rows.values = values;
        rows.row_step = (ptrdiff_t)(by_column ? size : size * columns);
        rows.column_step = (ptrdiff_t)(by_column ? size * n : size);
        rows.type = (uint8_t)type;
        ef_predict(&forest, &rows, 0, n, out);
        for (size_t i = 0; i < n; i++) {
            uint64_t sum = 0;
            ef_predict(&forest, &rows, i, 1, one); /* alone as among others */
            CHECK(!memcmp(one, out + i * forest.width, forest.width * sizeof *one));
            check_compact(compact, &rows, i, g, features, one, forest.width);
            for (size_t k = 0; k < forest.width; k++)
                sum += one[k];
            CHECK(task->criterion == EF_MSE ? sum <= task->scale : sum == task->scale);
        }
        free(values);
        free(out);
        free(one);
    }
    free(compact);
    free(packed);
    free(right16);
}

/* ---- The grid ---- */

/* One of the task's numbers is another: it is refused, or a tree grows as it should. */
static void run_spoiled(const ef_task *task, int32_t m, uint32_t index)
{
    Manner how = {-1, -1, INT64_MAX / 4, 500, 0, {0, -1, EF_GO, NULL}};
    for (int i = 0; i < 12; i++) {
        ef_task t = *task;
        int64_t value = PICK(-1, 0, 1, 2, 3, 5, 7, 255, 256, 4097, 65536, MASK, INT64_C(1) << 40);
        int64_t *wide[] = {&t.sample_size, &t.batch, &t.max_depth, &t.min_samples_leaf,
                           &t.min_samples_split, &t.max_leaf_nodes};
        int32_t *narrow[] = {&t.max_features, &t.n_bins, &t.width};
        uint8_t *flag[] = {&t.criterion, &t.splitter, &t.extra, &t.bootstrap, &t.raw};
        switch (below(6)) {
        case 0: *narrow[below(3)] = (int32_t)value; break;
        case 1: *flag[below(5)] = (uint8_t)value; break;
        case 2: t.scale = (uint32_t)value; break;
        case 3: t.pool = value < t.pool ? value : t.pool - 1; break;
        case 4: t.n_usable = value < t.n_usable ? (int32_t)value : t.n_usable - 1; break;
        default: *wide[below(6)] = value; break;
        }
        if (!ef_task_wrong(&t, m)) {
            Grown g = grow(&t, m, index, how);
            free_grown(&g);
        }
    }
    ef_task t = *task;
    uint16_t usable[MOST_COLUMNS];
    memcpy(usable, task->usable, (size_t)task->n_usable * sizeof *usable);
    usable[below((uint32_t)task->n_usable)] = (uint16_t)m;
    t.usable = usable;
    CHECK(ef_task_wrong(&t, m));
    if (task->criterion != EF_MSE && task->width > 1) {
        t = *task;
        t.width = 1; /* so that a label is beyond it */
        int beyond = 0;
        for (int64_t i = 0; i < t.n; i++)
            beyond |= t.y8 ? t.y8[i] : t.y16[i];
        CHECK(!beyond == !ef_task_wrong(&t, m));
    }
    if (task->columns->bounds && task->columns->last > 1) {
        ef_column c = *task->columns;
        float bounds[EF_BOUNDS];
        memcpy(bounds, c.bounds, sizeof bounds);
        c.bounds = bounds;
        bounds[1 + below((uint32_t)c.last)] = below(2) ? NAN : -EF_HUGE;
        CHECK(ef_column_wrong(&c));
    }
}

/* Nodes of noise: refused, or every way down ends at a leaf that has votes. */
static void run_noise(void)
{
    size_t n = 1 + below(12);
    uint16_t *feature = take(n * sizeof *feature);
    float *threshold = take(n * sizeof *threshold);
    uint32_t *right = take(n * sizeof *right), features, leaves;
    for (size_t i = 0; i < n; i++) {
        int inner = i + 1 < n && below(3);
        feature[i] = (uint16_t)(inner ? below(EF_LEAF) : EF_LEAF);
        threshold[i] = (float)below(9) - 4.0f;
        right[i] = below(30) == 0 ? below(UINT32_MAX)
                   : inner        ? (uint32_t)i + 1 + below((uint32_t)(n - i - 1))
                                  : below(20);
    }
    ef_packed *packed = take(n * sizeof *packed);
    ef_forest forest;
    forest.equal = ef_pack(feature, threshold, NULL, right, n, packed, &features, &leaves);
    ef_compact *compact = take(n * sizeof *compact);
    uint32_t needed, most;
    if (!ef_make_compact(feature, threshold, NULL, right, n, compact, &needed, &most)) {
        uint8_t *row = take(needed);
        for (size_t f = 0; f < needed; f++)
            row[f] = (uint8_t)below(9);
        const ef_compact *leaf = ef_walk(compact, below((uint32_t)n), row, EF_U8, threshold);
        CHECK(leaf < compact + n && leaf->feature == EF_LEAF && leaf->right < most);
        free(row);
    }
    free(compact);
    if (forest.equal >= 0 && leaves <= 1000) {
        uint32_t root = below((uint32_t)n), out[9];
        size_t count = 1 + below(9);
        float *values = take(count * features * sizeof *values);
        uint16_t *votes = take((size_t)leaves * sizeof *votes);
        forest.nodes = packed;
        forest.roots = &root;
        forest.votes = votes;
        forest.n_trees = forest.width = 1;
        ef_rows rows = {(unsigned char *)values, (ptrdiff_t)(features * sizeof *values),
                        sizeof *values, EF_F32};
        for (size_t i = 0; i < count * features; i++)
            values[i] = below(5) ? (float)below(9) - 4.0f : NAN;
        ef_predict(&forest, &rows, 0, count, out);
        free(values);
        free(votes);
    }
    free(feature);
    free(threshold);
    free(right);
    free(packed);
}

static void run_case(void)
{
    static const int64_t SMALL[] = {2, 3, 5, 17, 63, 64, 65, 130, 300};
    long turn = number;
    ef_task task;
    memset(&task, 0, sizeof task);
    task.criterion = (uint8_t)(turn % 3);
    task.splitter = (uint8_t)(turn / 3 % 3);
    task.extra = (uint8_t)(turn / 9 % 2);
#ifdef EF_BOARD
    int layout = (int)(turn / 18 % NUMBERS); /* which reads codes alone */
#else
    int layout = (int)(turn / 18 % LAYOUTS);
#endif
    int gaps = layout != RAW && below(2);
    size_t n = (size_t)pick(SMALL, 9);
    if (turn % 7 == 0)
        n = 900 + below(1200); /* raced, not counted whole */
    int32_t m = 1 + (int32_t)below(MOST_COLUMNS);
    Data data;
    make_data(&data, n, m, layout, gaps);

    uint16_t *usable = take((size_t)m * sizeof *usable);
    for (int32_t f = 0; f < m; f++)
        if (below(4) || (f == m - 1 && !task.n_usable))
            usable[task.n_usable++] = (uint16_t)f;
    task.columns = data.columns;
    task.usable = usable;
    task.raw = layout == RAW;
    task.row_major = m > 1;
    for (int32_t f = 0; f < m; f++)
        if (data.columns[f].type != EF_CODES || data.columns[f].step != data.columns->step ||
            data.columns[f].step < m)
            task.row_major = 0;
    task.n = (int64_t)n;
    task.pool = task.n;
    uint32_t *patch = NULL, *weights = NULL;
    if (below(4) == 0) {
        task.pool = 1 + below((uint32_t)n);
        patch = take((size_t)task.pool * sizeof *patch);
        for (int64_t i = 0; i < task.pool; i++)
            patch[i] = (uint32_t)((i * 7 + (int64_t)(number % 5)) % task.n);
        if (n % 7 == 0) /* then those would not be distinct */
            for (int64_t i = 0; i < task.pool; i++)
                patch[i] = (uint32_t)i;
    }
    if (below(4) == 0) {
        uint32_t heavy = (uint32_t)PICK(1, 3, 1000);
        weights = take(((size_t)task.pool + 1) * sizeof *weights);
        weights[0] = 0;
        for (int64_t i = 0; i < task.pool; i++)
            weights[i + 1] = weights[i] + (below(3) ? 1 : i ? heavy * below(2) : heavy);
    }
    task.patch = patch;
    task.weights = weights;
    task.bootstrap = below(3) > 0;
    task.sample_size = below(3) ? task.pool : 1 + below((uint32_t)task.pool);
    task.batch = PICK(1, 10, 100, 256, 256, 5000);
    task.max_depth = PICK(MASK, MASK, MASK, 0, 1, 3, 6);
    task.min_samples_leaf = PICK(1, 1, 1, 2, 5, 40, MASK);
    task.min_samples_split = PICK(2, 2, 2, 3, 30, MASK);
    task.max_leaf_nodes = PICK(MASK, MASK, MASK, 2, 3, 10);
    task.min_impurity_decrease = below(4) ? 0.0 : 0.01;
    task.z = (ef_real)PICK(0, 1, 2, 100);
    task.tolerance = (ef_real)below(5) / 4.0;
    task.confidence = below(2) ? -1.0 : 0.9;
    task.max_features = 1 + (int32_t)below((uint32_t)task.n_usable);
    task.n_bins = (int32_t)PICK(2, 3, 5, 16, 16, 16, 255);
    task.seed = below(MASK);
    task.scale = (uint32_t)PICK(1, 100, 65535);
    task.mask = MASK;

    uint8_t *y8 = NULL;
    uint16_t *y16 = NULL;
    if (task.criterion == EF_MSE) {
        task.width = task.splitter == EF_PAPER ? 5 : 3;
        y16 = take(n * sizeof *y16);
        int few = below(2) == 0;
        for (size_t i = 0; i < n; i++)
            y16[i] = (uint16_t)(few ? below(2) * 65535 : below(65536));
    } else {
        task.width = (int32_t)PICK(1, 2, 2, 3, 10, 70, 256, 300);
        if (task.width <= 256)
            y8 = take(n);
        else
            y16 = take(n * sizeof *y16);
        for (size_t i = 0; i < n; i++) {
            uint32_t k = below(3) ? (uint32_t)(i % (size_t)task.width) : below((uint32_t)task.width);
            if (y8)
                y8[i] = (uint8_t)k;
            else
                y16[i] = (uint16_t)k;
        }
    }
    task.y8 = y8;
    task.y16 = y16;

    CHECK(!ef_task_wrong(&task, m));
    Manner free_run = {-1, -1, INT64_MAX / 4, 500, 0, {0, -1, EF_GO, NULL}};
    Manner how = free_run;
    uint32_t index = below(4095);
    Grown plain = grow(&task, m, index, how);
    check_predict(&task, m, &plain);
    /* In pieces, with room for one more node each time, and looked after: the same tree. */
    how.piece = PICK(1, 50, 3000);
    how.more_room = 1;
    how.limited = (int)below(2);
    Grown again = grow(&task, m, index, how);
    check_same(&task, m, &plain, &again);
    free_grown(&again);
    /* A budget that is not reached changes nothing. */
    how = free_run;
    how.budget = INT64_MAX / 4;
    again = grow(&task, m, index, how);
    check_same(&task, m, &plain, &again);
    free_grown(&again);
    /* A short one is kept, in pieces or not. */
    how.budget = PICK(0, 1, 2, 7, 64, 300, 2000, 20000);
    Grown poor = grow(&task, m, index, how);
    how.piece = PICK(1, 50, 3000);
    how.more_room = 3;
    again = grow(&task, m, index, how);
    check_same(&task, m, &poor, &again);
    free_grown(&again);
    free_grown(&poor);
    /* Few nodes; stopped or late at any moment. */
    how = free_run;
    how.most = PICK(1, 2, 3, 4, 9, 30);
    again = grow(&task, m, index, how);
    free_grown(&again);
    how = free_run;
    how.watch.until = PICK(0, 1, 2, 5, 20, 100);
    how.watch.word = below(2) ? EF_STOP : EF_LATE;
    how.limited = how.watch.word == EF_LATE;
    how.piece = PICK(1, 3000, INT64_MAX / 4);
    how.more_room = 2;
    again = grow(&task, m, index, how);
    check_predict(&task, m, &again);
    free_grown(&again);
    run_spoiled(&task, m, index);
    /* Data that change whenever the kernel asks whether to go on; weights and patch before. */
    for (int i = 0; weights && i < 5; i++)
        weights[below((uint32_t)task.pool + 1)] = below(2) ? 0 : below(UINT32_MAX);
    for (int i = 0; patch && i < 5; i++)
        patch[below((uint32_t)task.pool)] = below(UINT32_MAX);
    how = free_run;
    how.watch.altered = &data;
    how.piece = PICK(1, 3000, INT64_MAX / 4);
    how.budget = PICK(-1, -1, 300, 20000);
    again = grow(&task, m, index, how);
    free_grown(&again);

    free_grown(&plain);
    free_data(&data);
    free(usable);
    free(patch);
    free(weights);
    free(y8);
    free(y16);
}

/* One of a plan's numbers is another: it is refused, or its trees learn. */
static void run_wrong_plan(ef_plan plan, const uint16_t *kinds)
{
    CHECK(!ef_plan_wrong(&plan, kinds));
    for (int i = 0; i < 20; i++) {
        ef_plan p = plan;
        int32_t *numbers[] = {&p.width, &p.n_trees, &p.max_features, &p.n_bins, &p.max_depth,
                              &p.nodes, &p.races, &p.window, &p.patch, &p.stride, &p.inputs};
        int32_t value = (int32_t)PICK(INT32_MIN, -1, 0, 1, 2, 7, 255, 256, 65535, 65536, INT32_MAX);
        if (below(4))
            *numbers[below(11)] = value;
        else if (below(2))
            p.least = value;
        else
            p.fade = (uint32_t)value;
        if (ef_plan_wrong(&p, kinds) || ef_grove_bytes(&p) > 1 << 20)
            continue;
        ef_grove *grove = take(sizeof *grove);
        void *memory = take(ef_grove_bytes(&p));
        float *row = take((size_t)p.m * sizeof *row);
        ef_grove_begin(grove, &p, kinds, memory);
        for (int k = 0; k < 60; k++) {
            uint16_t label = (uint16_t)below(p.width ? (uint32_t)p.width : 100);
            uint32_t guess;
            for (int32_t f = 0; f < p.m; f++)
                row[f] = (float)below(kinds[f] ? kinds[f] + 1u : 50);
            CHECK(ef_grove_learn(grove, row, &label, 1, &guess) == 1);
        }
        free(grove);
        free(memory);
        free(row);
    }
}

/* Trees that learn row by row: sound at any time, and the same whether rows come at once or not. */
static void run_grove(void)
{
    ef_plan p;
    memset(&p, 0, sizeof p);
    p.criterion = (uint8_t)below(3);
    p.m = (int32_t)PICK(1, 2, 5, 40);
    p.width = p.criterion == EF_MSE ? 0 : (int32_t)PICK(1, 2, 5, 300);
    p.n_trees = (int32_t)PICK(1, 2, 6);
    p.patch = 1 + (int32_t)below((uint32_t)p.m);
    p.max_features = 1 + (int32_t)below((uint32_t)p.patch);
    p.n_bins = (int32_t)PICK(2, 3, 16, 17, 255);
    p.max_depth = (int32_t)PICK(1, 4, 255);
    p.nodes = (int32_t)PICK(3, 15, 101);
    p.races = (int32_t)PICK(1, 3, 200);
    p.window = (int32_t)PICK(16, 17, 100);
    p.least = PICK(1, 1, 6);
    p.rows = below(2) ? 0.0 : 0.6;
    p.extra = (uint8_t)below(2);
    p.seed = below(1000);
    p.scale = p.width ? 4096 : 65535;
    p.fade = (uint32_t)PICK(0, 0, 1, 10, 100);
    size_t n = (size_t)PICK(0, 1, 15, 150, 450), m = (size_t)p.m;
    uint16_t *kinds = calloc(m, sizeof *kinds), *labels = calloc(n + 1, sizeof *labels);
    float *rows = calloc(n * m + 1, sizeof *rows);
    uint32_t *one = calloc(n + 1, sizeof *one), *two = calloc(n + 1, sizeof *two);
    int32_t most = 0;
    for (size_t f = 0; f < m; f++) {
        kinds[f] = below(4) ? 0 : (uint16_t)PICK(1, 7, 254);
        most = kinds[f] > most ? kinds[f] : most;
    }
    p.stride = 1 + (p.n_bins > most ? p.n_bins : most);
    p.inputs = p.width && below(2);
    for (size_t f = 0; p.inputs && f < m; f++)
        p.inputs += kinds[f] ? kinds[f] + 1 : 1;
    for (size_t i = 0; i < n; i++) {
        labels[i] = (uint16_t)below(p.width ? (uint32_t)p.width : 65536);
        for (size_t f = 0; f < m; f++) {
            float x = kinds[f] ? (float)(1 + below(kinds[f])) : (float)below(100) - 50.0f;
            rows[i * m + f] = below(8) ? x : NAN;
        }
    }
    size_t bytes = ef_grove_bytes(&p);
    void *memory[2] = {malloc(bytes), malloc(bytes)};
    ef_grove *groves[2] = {malloc(sizeof(ef_grove)), malloc(sizeof(ef_grove))};
    for (int i = 0; i < 2; i++) {
        memset(memory[i], i ? 0xA5 : 0, bytes); /* nothing is taken to be zero */
        ef_grove_begin(groves[i], &p, kinds, memory[i]);
    }
    ef_grove_learn(groves[0], rows, labels, n, one);
    size_t middle = n ? below((uint32_t)n) : 0;
    ef_grove_learn(groves[1], rows, labels, middle, two);
    size_t width = p.width ? (size_t)p.width : 2, room = (size_t)p.nodes;
    uint32_t *sums = malloc(width * sizeof *sums);
    for (size_t i = middle; i < n; i++) { /* asked beforehand, trees say the same */
        uint32_t best = ef_grove_vote(groves[1], rows + i * m, sums);
        ef_grove_learn(groves[1], rows + i * m, labels + i, 1, two + i);
        CHECK(p.width ? two[i] >> 2 == best : two[i] == sums[0]);
    }
    free(sums);
    CHECK(memcmp(one, two, n * sizeof *one) == 0);
    uint16_t *feature = malloc(room * 2), *left = malloc(room * 2), *right = malloc(room * 2);
    float *threshold = malloc(room * 4);
    uint32_t *votes = malloc(room * width * 4);
    ef_real *gains = malloc(m * sizeof *gains);
    for (int32_t t = 0; t <= p.n_trees; t++) {
        int32_t size = ef_grove_size(groves[0], t);
        CHECK(size >= 1 && size <= p.nodes && size % 2 == 1);
        ef_grove_tree(groves[0], t, feature, threshold, left, right, votes, gains);
        for (int32_t i = 0; i < size; i++) {
            if (feature[i] == EF_LEAF)
                continue;
            CHECK((feature[i] & EF_FEATURE) < p.m);
            CHECK(left[i] > i && left[i] < size && right[i] == left[i] + 1);
        }
        /* Taken over by another grove. */
        if (t == 0)
            ef_grove_begin(groves[1], &p, kinds, memory[1]);
        CHECK(!ef_grove_plant(groves[1], t, size, feature, threshold, left, right, votes, gains));
    }
    size_t kept = n < (size_t)p.window ? n : (size_t)p.window;
    ef_grove_recall(groves[1], rows + (n - kept) * m, labels + (n - kept), kept);
    ef_grove_renew(groves[1], 0);
    CHECK(ef_grove_learn(groves[1], rows, labels, n, two) == n);
    /* Trees and rows of noise: refused, or harmless. */
    for (int i = 0; i < 6; i++) {
        int32_t size = (int32_t)below((uint32_t)room + 1);
        for (int32_t k = 0; k < size; k++) {
            uint32_t after = (uint32_t)(size - k - 1);
            uint32_t f = below((uint32_t)m) | below(4) << 14, child = (uint32_t)k + 1;
            feature[k] = (uint16_t)(after > 1 && below(2) ? f : EF_LEAF);
            threshold[k] = (float)below(100) - 50.0f;
            left[k] = (uint16_t)(after > 1 && below(40) ? child + below(after - 1) : below(65536));
            right[k] = (uint16_t)(below(40) ? left[k] + 1u : below(65536));
            for (size_t v = 0; v < width; v++)
                votes[(size_t)k * width + v] = (uint32_t)(below(20) ? below(1000)
                                                                    : PICK(0x80000000, -1));
        }
        ef_grove_plant(groves[1], (int32_t)below((uint32_t)p.n_trees + 1), size, feature, threshold,
                       left, right, votes, gains);
        for (size_t k = 0; k < n * m; k++)
            if (below(3) == 0)
                rows[k] = below(9) ? (float)PICK(-1000000, -1, 0, 1, 255, 256, 1000000) : HUGE_VALF;
        size_t wrong = n ? below((uint32_t)n) : 0;
        uint16_t label = labels[wrong];
        if (p.width)
            labels[wrong] = (uint16_t)p.width;
        size_t done = below(2) ? ef_grove_learn(groves[1], rows, labels, n, two)
                               : ef_grove_recall(groves[1], rows, labels, n);
        CHECK(done == (p.width ? wrong : n));
        CHECK(!p.width || !n || ef_grove_rows_wrong(groves[1], rows, labels, n));
        labels[wrong] = label;
        ef_grove_renew(groves[1], (int32_t)below((uint32_t)p.n_trees + 1));
    }
    run_wrong_plan(p, kinds);
    for (int i = 0; i < 2; i++) {
        free(memory[i]);
        free(groves[i]);
    }
    free(feature);
    free(left);
    free(right);
    free(threshold);
    free(votes);
    free(gains);
    free(kinds);
    free(labels);
    free(rows);
    free(one);
    free(two);
}

int main(int argc, char **argv)
{
    long cases = argc > 1 ? atol(argv[1]) : 1000;
    for (number = 0; number < cases; number++)
        if (number % 5 == 4)
            run_grove();
        else {
            run_case();
            run_noise();
        }
    printf("%ld cases\n", cases);
    return 0;
}
