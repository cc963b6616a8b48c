/* Trains a forest with the kernel and predicts with it, for benchmarks/devices.py to count instructions.
 *
 * Reads from its standard input: nine numbers of 32 bits (rows, features, classes, trees, depth, features a
 * split, rows a tree draws, votes of a leaf, whether values are float32 instead of bytes), then the values row
 * after row, then a label of a byte for each row. What lies between two calls of `mark` is one stage:
 * coding, training, predicting. Prints insertions, nodes, the rows of the last stage, how many
 * of some rows are predicted right, of how many, and a checksum of the forest.
 *
 * It asks the system itself to read and write, so that it needs no C library for each processor. With -DHOSTED
 * it is an ordinary program.
 */
#include "edgeforest.h"

#include <string.h>

enum { ROWS, FEATURES, CLASSES, TREES, DEPTH, TRIED, DRAWN, VOTES, FLOATS, HEAD };
#define SAMPLE 4096  /* rows that bounds are made of, as in the other engines */
#define PREDICTED 256 /* rows in the last stage */
#define CHECKED 1000  /* rows that accuracy is counted on */

static uint32_t head[HEAD];
static unsigned char *values, *labels, *codes;
static ef_column *columns;
static float (*bounds)[EF_BOUNDS];
static uint16_t *feature, *votes, *usable;
static float *threshold;
static uint32_t *right, *roots, n_nodes, n_votes;
static ef_packed *packed;
static ef_forest forest;
static int64_t insertions;

/* ---- What a C library would have ---- */

static long ask(long what, long a, long b, long c)
{
#if defined __x86_64__
    __asm__ volatile("syscall" : "+a"(what) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return what;
#elif defined __aarch64__
    register long x8 __asm__("x8") = what, x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#else
    register long r7 __asm__("r7") = what, r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b, r2 __asm__("r2") = c;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
#endif
}

#if defined __x86_64__
enum { READ = 0, WRITE = 1, EXIT = 60 };
#elif defined __aarch64__
enum { READ = 63, WRITE = 64, EXIT = 93 };
#else
enum { READ = 3, WRITE = 4, EXIT = 1 };
#endif

static void leave(long code, const char *why)
{
    long n = 0;
    while (why[n])
        n++;
    ask(WRITE, 2, (long)why, n);
    for (;;)
        ask(EXIT, code, 0, 0);
}

static void *take(size_t bytes)
{
    static unsigned char memory[64 << 20] __attribute__((aligned(64)));
    static size_t used;
    void *mine = memory + used;
    if (bytes > sizeof memory - used - 64)
        leave(1, "the task is too large\n");
    used += (bytes + 63) / 64 * 64;
    return mine;
}

static void fill(void *memory, size_t bytes)
{
    unsigned char *p = memory;
    while (bytes) {
        const long got = ask(READ, 0, (long)p, (long)bytes);
        if (got <= 0)
            leave(1, "the task is too short\n");
        p += got;
        bytes -= (size_t)got;
    }
}

static void say(uint64_t number)
{
    char text[21];
    int at = 20;
    text[at] = ' ';
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    ask(WRITE, 1, (long)(text + at), 21 - at);
}

#ifndef HOSTED
void *memchr(const void *memory, int byte, size_t n)
{
    for (const unsigned char *p = memory; n; p++, n--)
        if (*p == (unsigned char)byte)
            return (void *)p;
    return NULL;
}
#endif

/* ---- The task ---- */

/* Where a stage ends and the next one begins. */
void mark(void);
__attribute__((noinline)) void mark(void) { __asm__ volatile("" ::: "memory"); }

/* Numbers become codes. Bytes are codes already. */
static void encode(void)
{
    const size_t n = head[ROWS], m = head[FEATURES];
    const size_t size = head[FLOATS] ? 4 : 1;
    columns = take(m * sizeof *columns);
    bounds = take(m * sizeof *bounds);
    codes = head[FLOATS] ? take(n * m) : values;
    const size_t some = !head[FLOATS] ? 0 : n < SAMPLE ? n : SAMPLE;
    uint32_t *rows = take(some * sizeof *rows);
    float *sample = take(some * sizeof *sample), *spare = take(some * sizeof *spare);
    for (size_t i = 0; i < some; i++)
        rows[i] = (uint32_t)(i * n / some);
    for (size_t f = 0; f < m; f++) {
        ef_column *c = &columns[f];
        *c = (ef_column){.values = values + f * size, .step = (ptrdiff_t)(m * size), .last = 255};
        if (!head[FLOATS])
            continue;
        uint8_t grid[EF_GRID + 2];
        c->type = EF_F32;
        ef_floats(c, rows, some, sample);
        c->last = ef_make_bounds(sample, some, spare, bounds[f]) - 1;
        c->bounds = bounds[f];
        ef_grid(c, grid);
        ef_encode(c, 0, n, codes + f, (ptrdiff_t)m);
        *c = (ef_column){.values = codes + f, .step = (ptrdiff_t)m, .bounds = bounds[f], .last = c->last};
    }
}

/* All trees, one after the other, and what predicting needs. */
static void train(void)
{
    const uint32_t m = head[FEATURES], width = head[CLASSES];
    usable = take(m * sizeof *usable);
    for (uint32_t f = 0; f < m; f++)
        usable[f] = (uint16_t)f;
    const ef_task task = {
        .columns = columns, .usable = usable, .n_usable = (int32_t)m,
        .max_features = (int32_t)head[TRIED], .raw = !head[FLOATS], .row_major = 1,
        .y8 = labels, .width = (int32_t)width, .criterion = EF_GINI, .splitter = EF_MAB,
        .n = head[ROWS], .pool = head[ROWS], .sample_size = head[DRAWN], .bootstrap = 1,
        .max_depth = head[DEPTH], .min_samples_leaf = 1, .min_samples_split = 2,
        .max_leaf_nodes = EF_MASK, .mask = EF_MASK,
        .n_bins = 16, .batch = 256, .z = 2.25, .tolerance = 0.1, .confidence = -1,
        .seed = 0, .scale = head[VOTES],
    };
    const char *wrong = ef_task_wrong(&task, (int32_t)m);
    if (wrong)
        leave(1, wrong);
    void *workspace = take(ef_workspace_bytes(&task));
    const size_t room = (size_t)2 << head[DEPTH], all = room * head[TREES];
    ef_node *nodes = take(room * sizeof *nodes);
    feature = take(all * sizeof *feature);
    threshold = take(all * sizeof *threshold);
    right = take(all * sizeof *right);
    votes = take(all * width * sizeof *votes);
    roots = take(head[TREES] * sizeof *roots);
    double *importance = take(m * sizeof *importance);
    for (uint32_t t = 0; t < head[TREES]; t++) {
        ef_tree tree;
        ef_tree_begin(&tree, &task, t, workspace);
        tree.nodes = nodes;
        tree.room = (int64_t)room;
        while (ef_tree_grow(&tree, 4000000) == EF_MORE)
            ;
        const int64_t leaves = ef_tree_close(&tree);
        roots[t] = n_nodes;
        ef_tree_write(&tree, n_nodes, n_votes, feature + n_nodes, threshold + n_nodes, NULL,
                      right + n_nodes, votes + (size_t)n_votes * width, importance);
        n_nodes += (uint32_t)tree.n_nodes;
        n_votes += (uint32_t)leaves;
        insertions += tree.insertions;
    }
    packed = take(n_nodes * sizeof *packed);
    const int equal = ef_pack(feature, threshold, NULL, right, n_nodes, packed, NULL, NULL);
    forest = (ef_forest){packed, roots, votes, head[TREES], width, equal};
}

/* The classes of some rows, one after the other. */
static uint32_t predict(uint32_t n)
{
    const size_t m = head[FEATURES], size = head[FLOATS] ? 4 : 1;
    const uint32_t width = head[CLASSES];
    uint32_t sums[256], good = 0;
    for (uint32_t i = 0; i < n; i++) {
        const ef_rows row = {values + i * m * size, 0, (ptrdiff_t)size, head[FLOATS] ? EF_F32 : EF_CODES};
        ef_predict(&forest, &row, 0, 1, sums);
        uint32_t best = 0;
        for (uint32_t k = 1; k < width; k++)
            if (sums[k] > sums[best])
                best = k;
        good += best == labels[i];
    }
    return good;
}

static uint32_t checksum(uint32_t sum, const void *memory, size_t bytes)
{
    const unsigned char *p = memory;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ p[i]) * 16777619u;
    return sum;
}

static void run(void)
{
    fill(head, sizeof head);
    const size_t bytes = (size_t)head[ROWS] * head[FEATURES] * (head[FLOATS] ? 4 : 1);
    if (head[CLASSES] > 256)
        leave(1, "there are too many classes\n");
    values = take(bytes);
    labels = take(head[ROWS]);
    fill(values, bytes);
    fill(labels, head[ROWS]);
    const uint32_t some = head[ROWS] < PREDICTED ? head[ROWS] : PREDICTED;
    const uint32_t checked = head[ROWS] < CHECKED ? head[ROWS] : CHECKED;
    mark();
    encode();
    mark();
    train();
    mark();
    predict(some);
    mark();
    uint32_t sum = checksum(2166136261u, feature, n_nodes * sizeof *feature);
    sum = checksum(sum, threshold, n_nodes * sizeof *threshold);
    sum = checksum(sum, votes, (size_t)n_votes * head[CLASSES] * sizeof *votes);
    say((uint64_t)insertions);
    say(n_nodes);
    say(some);
    say(predict(checked));
    say(checked);
    say(sum);
}

#ifdef HOSTED
int main(void)
{
    run();
    return 0;
}
#else
void _start(void);
#ifdef __x86_64__
__attribute__((force_align_arg_pointer))
#endif
void _start(void)
{
    run();
    leave(0, "");
}
#endif
