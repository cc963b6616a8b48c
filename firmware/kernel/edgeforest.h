/* EdgeForest's kernel: grows and evaluates the same forests as the pure engine, in C99.
 *
 * The pure engine (edgeforest/core_pure.py and what it imports) is the specification. Functions here
 * are named after its functions, and every floating-point expression is written in its order, so
 * that the results agree bit for bit.
 * Compile without fast-math and with -ffp-contract=off.
 *
 * Nothing here allocates, prints or keeps state: the caller owns every byte. Ask for the
 * size first (ef_workspace_bytes), then pass the memory (ef_tree_begin).
 */
#ifndef EDGEFOREST_H
#define EDGEFOREST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The constants of the pure engine; a test compares them. */
#define EF_EXACT_BELOW 640
#define EF_LARGE 1000
#define EF_GROUP_ROWS 64
#define EF_LOOK_ROWS 256
#define EF_ROWS_PER_BIN 32
#define EF_MORE_BINS 4
#define EF_REACH 2
#define EF_LOOK_CODES 253
#define EF_PAPER_BATCH 1000
#define EF_RACE_ROWS 512
#define EF_LEAST_ROWS 64
#define EF_LEAST_OTHERS 16
#define EF_TOLERANCE_IMPURITY 0.001
#define EF_WEAK 16
#define EF_LEVELS 65535
#define EF_LEAF 0xFFFF
#define EF_MISSING_LEFT 0x8000
#define EF_EQUAL 0x4000
#define EF_FEATURE 0x3FFF
#define EF_HUGE 3.4028234663852886e38f
#define EF_MASK 0x3FFFFFFF /* the most rows; random numbers are below it */
#define EF_CLASSES 4096    /* the most classes */

/* What a race computes with. The pure engine on a computer has double; a board whose processor has
 * no doubles is compiled with -DEF_REAL=float. Such a forest differs where two splits are almost
 * equally good. Codes and votes are the same with either. */
#ifndef EF_REAL
#define EF_REAL double
#endif
typedef EF_REAL ef_real;

/* ---- Data: columns of numbers, read where they lie ---- */

typedef enum {
    EF_CODES, /* bytes that are codes already */
    EF_I8,
    EF_U8,
    EF_I16,
    EF_U16,
    EF_I32,
    EF_U32,
    EF_I64,
    EF_U64,
    EF_F32,
    EF_F64
} ef_type;

#define EF_GRID 1024
#define EF_BOUNDS 256 /* room for the bounds of one column */

/* One feature. Numbers become codes whenever a row is read. */
typedef struct {
    const unsigned char *values; /* of row 0 */
    ptrdiff_t step;              /* bytes from one row to the next */
    const float *bounds;         /* code c holds bounds[c-1] < x <= bounds[c]; NULL: bounds[c] = c */
    const uint8_t *grid;         /* made by ef_grid, for columns that are not codes */
    double low, per;             /* made by ef_grid */
    int32_t last;                /* the highest code */
    uint8_t type;                /* ef_type */
    uint8_t categories;          /* how many, 0 for numbers */
    uint8_t crowded;             /* made by ef_grid: a cell of the grid has more than two bounds */
} ef_column;

typedef struct {
    uint32_t z, w;
} ef_rng;

void ef_rng_begin(ef_rng *rng, uint32_t seed, uint32_t stream);
uint32_t ef_rng_next(ef_rng *rng);
uint32_t ef_rng_below(ef_rng *rng, uint32_t n);
void ef_rng_fill(ef_rng *rng, uint32_t *values, size_t count, uint32_t n);

/* Bounds of a sample of `n` values, which is sorted in place; `spare` has room for n values.
 * Returns how many bounds there are. */
int32_t ef_make_bounds(float *sample, size_t n, float *spare, float *bounds);

/* Fill `grid` (EF_GRID + 2 bytes) and the column's low, per and crowded from its bounds. */
void ef_grid(ef_column *column, uint8_t *grid);

/* Values of the rows of a column as float32. */
void ef_floats(const ef_column *column, const uint32_t *rows, size_t n, float *out);

/* Codes of rows first .. first + n of a column, written `step` bytes apart. Returns the first row
 * whose value is infinite as float32, or -1. */
int64_t ef_encode(const ef_column *column, size_t first, size_t n, uint8_t *codes, ptrdiff_t step);

/* Why this column cannot be coded or trained on, as a sentence; NULL if it can. */
const char *ef_column_wrong(const ef_column *column);

/* One whole number of a column of integers. */
int64_t ef_whole(const ef_column *column, uint32_t row);

/* Levels 0 .. 65535 of n targets between their smallest and largest, as float32; returns 0 if one
 * of them is not a finite number, or if they span more than float32 can hold. */
int ef_levels(const ef_column *column, size_t n, uint16_t *levels, double *low, double *high);

/* ---- Growing ---- */

/* The number of a row. On a board a tree has at most 65535 rows, because memory is short. */
#ifdef EF_BOARD
typedef uint16_t ef_row;
#else
typedef uint32_t ef_row;
#endif
#define EF_MOST_ROWS (sizeof(ef_row) < 4 ? 65535 : EF_MASK)

typedef enum { EF_GINI, EF_ENTROPY, EF_MSE } ef_criterion;
typedef enum { EF_MAB, EF_PAPER, EF_EXACT } ef_splitter;

/* What is the same for every tree of a forest. */
typedef struct {
    const ef_column *columns;
    const uint16_t *usable; /* features to draw from */
    const uint8_t *y8;      /* labels or levels: one of the two */
    const uint16_t *y16;
    const uint32_t *weights; /* running sums, or NULL */
    const uint32_t *patch;   /* rows to draw from, or NULL for all */
    int64_t n;               /* rows of the data */
    int64_t pool;            /* rows to draw from */
    int64_t sample_size;
    int64_t batch; /* rows of the first round */
    int64_t max_depth, min_samples_leaf, min_samples_split, max_leaf_nodes;
    ef_real min_impurity_decrease, z, tolerance, confidence; /* confidence < 0: not given */
    int32_t n_usable, max_features, n_bins;
    int32_t width; /* cells of a bin: classes, or moments of the target */
    uint32_t seed, scale, mask;
    uint8_t criterion, splitter;
    uint8_t extra, bootstrap, raw;
    uint8_t row_major; /* all columns are codes, and those of a row lie side by side */
} ef_task;

typedef struct {
    uint32_t start, end; /* its rows */
    uint32_t left;       /* 0: not split */
    uint32_t right;
    float threshold, gain;
    uint16_t depth, feature;
    uint8_t code;
} ef_node;

/* Your function, called regularly while a tree grows, also during a race. */
typedef enum { EF_GO, EF_LATE, EF_STOP } ef_word;
typedef ef_word (*ef_poll)(void *context, int every_round);

typedef struct ef_contender ef_contender;

/* A tree that grows. After ef_tree_begin the caller sets `nodes` and may set the rest of the first
 * block; the other fields belong to the kernel. */
typedef struct {
    const ef_task *task;
    ef_node *nodes; /* may be moved and enlarged between two calls of ef_tree_grow */
    int64_t room;   /* nodes that fit */
    int64_t most;   /* nodes that the tree may have, by its budget in bytes; -1: no limit */
    int64_t left;   /* insertions that it may still make; -1: no limit */
    ef_poll poll;   /* or NULL */
    void *context;
    uint8_t limited; /* whether poll may say EF_LATE */

    int64_t size; /* rows drawn, each once */
    int64_t n_nodes, raced, waiting, leaves, wanted;
    int64_t insertions, rounds, rows_read;
    ef_rng rng;
    uint32_t key, stack;
    ef_row *rows;
    uint8_t *times8; /* how often a row was drawn: one of the two, or none (all once) */
    uint16_t *times16;
    uint8_t *flags;  /* not on a board */
    uint32_t *notes; /* nor this: label and times of each of the rows, and moved with them */
    uint16_t *features;
    uint16_t *numbers, *map; /* of the classes that occur in a node */
    int32_t width;           /* how many those are */
    ef_contender *contenders;
    uint32_t *racing;
    void *cells; /* int32_t, or int64_t of a regression; see `narrow` */
    size_t most_bins; /* of one histogram, that of missing values included */
    int64_t *sums; /* seven vectors of `width` */
    ef_real *influences; /* four vectors of `width` */
    ef_real *logs;
    uint8_t begun, stopped, infinite, free_order, whole;
    uint8_t narrow; /* 0, or the cells of a bin where a node has small sums: see ef_stride */
    int64_t work; /* since the last poll */
} ef_tree;

#define EF_LOGS 2048

/* Why no tree can be grown for this task with `m` columns, as a sentence; NULL if one can. Labels,
 * weights and rows of the patch are checked one by one. The rest is trusted from then on; weights,
 * patch and the values of columns may still change, and the trees with them. */
const char *ef_task_wrong(const ef_task *task, int32_t m);

/* Bytes of memory that a tree of this task needs, besides its nodes. */
size_t ef_workspace_bytes(const ef_task *task);

/* Begin tree `index` in `workspace` (aligned for double). */
void ef_tree_begin(ef_tree *tree, const ef_task *task, uint32_t index, void *workspace);

typedef enum {
    EF_DONE,    /* grown */
    EF_MORE,    /* `insertions` were made: call again to continue */
    EF_FULL,    /* enlarge `nodes` and `room`, and call again */
    EF_STOPPED  /* the poll returned EF_STOP */
} ef_status;

/* Grow until done, or until about that many more insertions are made. */
ef_status ef_tree_grow(ef_tree *tree, int64_t insertions);

/* Turn every node that was not split into a leaf; returns how many leaves there are. */
int64_t ef_tree_close(ef_tree *tree);

/* Write the closed tree in preorder, as GrowingTree.move_to does: its nodes will be those from `here`
 * on, its votes those from `votes_here` on. Right children and places of votes go into right16 or
 * right32; the other is NULL. Adds the gains to `importance`, by feature. Call it once. */
void ef_tree_write(ef_tree *tree, uint32_t here, uint32_t votes_here, uint16_t *feature,
                   float *threshold, uint16_t *right16, uint32_t *right32, uint16_t *votes,
                   ef_real *importance);

/* ---- Predicting ---- */

/* A node in the form that prediction uses. `left` and `right` are steps to the children. A leaf has
 * a left step of 0 and every value goes there; its `right` is the place of its votes. */
typedef struct {
    float threshold;
    uint32_t right;
    uint16_t feature;
    uint8_t left;
    uint8_t flags; /* EF_MISSING_LEFT >> 8, EF_EQUAL >> 8 */
} ef_packed;

/* Pack the n nodes of a forest; right16 or right32 is NULL. Returns 1 if a node tests for equality,
 * 0 if none does, -1 if a child is not one of the nodes after its parent. Sets how many features a
 * row must have, and how many leaves must have votes; either may be NULL. */
int ef_pack(const uint16_t *feature, const float *threshold, const uint16_t *right16,
            const uint32_t *right32, size_t n, ef_packed *packed, uint32_t *features,
            uint32_t *leaves);

typedef struct {
    const ef_packed *nodes;
    const uint32_t *roots;
    const uint16_t *votes;
    size_t n_trees, width;
    int equal; /* what ef_pack returned */
} ef_forest;

/* Rows of numbers: value f of row i lies at values + i * row_step + f * column_step. */
typedef struct {
    const unsigned char *values;
    ptrdiff_t row_step, column_step;
    uint8_t type; /* ef_type; EF_CODES reads bytes */
} ef_rows;

/* Sum the votes of all trees for rows first .. first + n into `out`, `width` for each row. */
void ef_predict(const ef_forest *forest, const ef_rows *rows, size_t first, size_t n,
                uint32_t *out);

/* The leaves that rows first .. first + n reach, as places among the nodes: of the first tree into
 * out[0 ..], of the next into out[step ..], and so on. */
void ef_apply(const ef_forest *forest, const ef_rows *rows, size_t first, size_t n, uint32_t *out,
              size_t step);

/* The same for a board: a node has eight bytes, whole numbers are compared as such. `cut` is the
 * threshold rounded down, `right` the step to the right child, of a leaf the place of its votes. */
typedef struct {
    int32_t cut;
    uint16_t feature; /* with its flags; EF_LEAF */
    uint16_t right;
} ef_compact;

/* Fill in the n nodes of a forest, as ef_pack does. Returns 0, or -1 if a child is not one of the
 * nodes after its parent, or a step or place is above 65535. */
int ef_make_compact(const uint16_t *feature, const float *threshold, const uint16_t *right16,
                    const uint32_t *right32, size_t n, ef_compact *nodes, uint32_t *features,
                    uint32_t *leaves);

/* The leaf that a row reaches from `root`. The row has whole numbers of `type`, from EF_CODES to
 * EF_U32, or float32 numbers, which are compared with `threshold`. */
const ef_compact *ef_walk(const ef_compact *nodes, uint32_t root, const void *row, ef_type type,
                          const float *threshold);

/* ---- Learning row by row: Grove of edgeforest/grove.py ---- */

typedef struct {
    double rows; /* share of the rows that count in a tree; 0: drawn with repeats */
    int64_t least;
    int32_t m, width; /* width: classes, 0 for a regression */
    int32_t n_trees, max_features, n_bins, max_depth, nodes, races, window, patch, stride;
    int32_t inputs; /* of the linear model; 0: there is none */
    uint32_t seed, stream, scale, fade; /* fade 0: leaves have several memories */
    uint8_t criterion, extra;
} ef_plan;

#define EF_MEMORIES 3 /* of a leaf, at most */
#define EF_RATES 2 /* of the linear model */
#define EF_ANSWERS (1 + 2 * EF_RATES) /* the trees; each rate alone, and with the trees */

typedef struct ef_sapling ef_sapling;
typedef struct ef_live ef_live;
typedef struct ef_fork ef_fork;

/* The smallest and largest number of each feature in a leaf, and how many are missing. */
typedef struct {
    float *low, *high;
    int32_t *missing;
} ef_span;

/* Trees that learn. All fields belong to the kernel; do not move it in memory. */
typedef struct {
    ef_plan plan;
    ef_task task;
    ef_tree tree; /* what the functions of a race work with */
    ef_rng rng;
    ef_sapling *trees;
    ef_live *slots;
    ef_contender *contender;
    ef_sapling **order; /* the trees in their order; the last one does not vote */
    uint16_t *leaves, *labels, *places, *stack, *kinds, *free_slots, *raced, *new_raced, *arms;
    uint16_t *numbers; /* of the rows of rare classes, modulo what their weights repeat after */
    uint32_t *misses, *out, *counts; /* counts: rows in the window, by class */
    uint8_t *times, *drawn, *bins, *new_bins; /* drawn: how often a row counts, by tree */
    ef_span spans;
    float *values, *cuts, *new_cuts, *waiting, *lane_values;
    uint8_t *lane_bins;
    ef_real *gains;
    void *cells;
    int64_t seen, stored; /* rows, and those of rare classes that left the window */
    int64_t losses[EF_MEMORIES]; /* of each memory, lately */
    uint32_t fades[EF_MEMORIES];
    int32_t n_free, hand, half, lead, memories, memory, quota, spare, spares, new_n_cuts, some_kinds, some_missing;
    int32_t room; /* rows that a race may list before it has histograms */
    double *weights, *means, *squares, *scaled, *shares; /* of the linear model */
    int64_t mix_losses[EF_ANSWERS];
    uint32_t *alone, *mixed;
    int32_t *inputs, choice;
    uint16_t *counted;
} ef_grove;

/* Why this plan cannot be used, as a sentence; NULL if it can. */
const char *ef_plan_wrong(const ef_plan *plan, const uint16_t *kinds);

/* Bytes of memory that a grove needs. */
size_t ef_grove_bytes(const ef_plan *plan);

/* Begin a grove in `memory` (aligned for double). `kinds` has the number of categories of each
 * feature, 0 for numbers. */
void ef_grove_begin(ef_grove *grove, const ef_plan *plan, const uint16_t *kinds, void *memory);

/* Why these rows cannot be learned, as a sentence; NULL if they can. */
const char *ef_grove_rows_wrong(const ef_grove *grove, const float *rows, const uint16_t *labels,
                                size_t n);

/* Predict n rows of finite numbers or NaN, one after the other, and learn each of them. A guess is
 * a sum of levels; or four times the number of a class, 1 more if it has two thirds of the votes, 2 if
 * four fifths. Stops at a label that is out of range; returns how many
 * rows were learned. */
size_t ef_grove_learn(ef_grove *grove, const float *rows, const uint16_t *labels, size_t n,
                      uint32_t *guesses);

/* Sum the votes of the trees for a row into `out`, which has a place for each class, or one for a
 * regression; returns the place of the largest. The answer is that of a forest of these trees. */
uint32_t ef_grove_vote(const ef_grove *grove, const float *row, uint32_t *out);

/* Replace a tree by one of n nodes; a left child comes after its parent, the right child is the next node.
 * Returns why that is not possible, as a sentence, or NULL. */
const char *ef_grove_plant(ef_grove *grove, int32_t t, int32_t n, const uint16_t *feature,
                           const float *threshold, const uint16_t *left, const uint16_t *right,
                           const uint32_t *votes, const ef_real *gains);

/* Put the latest rows into the window of a new grove; those before them are kept beside it if their
 * classes are rare. Stops at a label that is out of range; returns how many rows were taken. */
size_t ef_grove_recall(ef_grove *grove, const float *rows, const uint16_t *labels, size_t n);

/* Grow a tree anew from the latest rows. */
void ef_grove_renew(ef_grove *grove, int32_t t);

/* How many nodes a tree has; and a copy of them, with the votes of all and what features gained. */
int32_t ef_grove_size(const ef_grove *grove, int32_t t);
void ef_grove_tree(const ef_grove *grove, int32_t t, uint16_t *feature, float *threshold,
                   uint16_t *left, uint16_t *right, uint32_t *votes, ef_real *gains);

#ifdef __cplusplus
}
#endif
#endif
