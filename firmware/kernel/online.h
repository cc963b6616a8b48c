/* What the parts of the online learner share: online.c has rows and trees, online_race.c races, and
 * online_few.c those of few rows. */
#ifndef EF_ONLINE_H
#define EF_ONLINE_H

#include "internal.h"

/* The constants of edgeforest/grove.py, which explains them; a test compares them. */
#define START 16
#define STEP 8
#define PATIENCE 20
#define SURE 1.0
#define PRIOR 1
#define EVERY 100
#define AGAIN 4
#define MANY 4096
#define TRIES 8
#define CLEARLY 4
#define FIRST 64
#define UNIT 512
#define LONG 1021
#define MOST (1u << 28)
#define LATELY 9
#define SPARES 256
#define RATES {0.01,0.05}
#define FADES {3,12,50}
#define NONE 0xFFFF
#define WAITING 8 /* rows that a race counts together */
#define EF_FEW_BINS 16 /* and classes, of a race that lists its rows */
#define EF_FEW_CLASSES 16
#define EF_FEW_CELLS ((EF_FEW_BINS + 1) * EF_FEW_CLASSES / 2) /* int64_t of a histogram, at least 3 a bin */

/* Those of edgeforest/linear.py. */
#define MEMORY 1000
#define FAR 3.0

#ifdef __GNUC__ /* four numbers at once; other compilers are given loops */
typedef float ef_four __attribute__((vector_size(16)));
typedef int32_t ef_mask __attribute__((vector_size(16)));
typedef uint8_t ef_bytes __attribute__((vector_size(4)));

static inline ef_four ef_load(const float *from)
{
    ef_four x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Four whole numbers; sums of `ef_words` may wrap around. */
typedef uint32_t ef_words __attribute__((vector_size(16)));

static inline ef_words ef_load_words(const uint32_t *from)
{
    ef_words x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Store whole numbers as bytes. */
static inline void ef_store(ef_mask x, uint8_t *to)
{
    ef_bytes bytes = __builtin_convertvector(x, ef_bytes);
    memcpy(to, &bytes, sizeof bytes);
}

static inline ef_four ef_where(ef_mask holds, ef_four x, ef_four y)
{
    return (ef_four)((holds & (ef_mask)x) | (~holds & (ef_mask)y));
}
#endif

/* A node: what is needed on the way down lies together. A leaf is its own left child, and every row goes
 * there: so several trees are walked in step, without a branch for those that have arrived. */
struct ef_fork {
    float threshold;
    uint16_t feature, down; /* how far away the left child is; the right one is the node after that */
};

static inline int ef_is_leaf(const ef_fork *node) { return node->down == 0; }

/* What a leaf has besides its votes: its race, and a queue of the latest rows in it. */
typedef struct {
    uint32_t missed;
    uint16_t slot, wait, head, tail;
    uint16_t sure; /* one more than the class that all of its votes are for, if that is known */
    uint8_t depth;
} ef_tip;

/* A row of the window in a tree: its leaf, and the next row in that leaf's queue. */
typedef struct {
    uint16_t leaf, next;
} ef_link;

/* One tree that learns. */
struct ef_sapling {
    ef_fork *nodes;
    ef_tip *tips;
    ef_link *kept;
    uint16_t *spares, *features; /* spares: leaves of the rows beside the window */
    uint32_t *votes;
    ef_real *importance;
    int32_t better, worse; /* rows since the last contest that the challenger got less, more wrong */
    int32_t n_nodes;
    uint32_t shift;
};

/* The race of a leaf. Its features, bins, cuts and cells lie in arrays of the grove, by slot. */
struct ef_live {
    int64_t seen, draws, squares, due; /* rows, how often they count, the squares of that; next look */
    uint16_t tree, node; /* the tree as its place in memory */
    uint16_t n, cuts;    /* features, and the bounds of the one that has most */
    uint16_t labels[WAITING]; /* of rows that wait to be counted */
    uint8_t times[WAITING], waiting;
    uint16_t listed; /* rows in its list; NONE if it has histograms */
};

/* Numbers of a leaf's votes, of a bin's cells, and so on. */
static inline size_t ef_votes_of(const ef_plan *p) { return p->width ? (size_t)p->width : 2; }
static inline int ef_memories_of(const ef_plan *p) { return p->fade ? 1 : EF_MEMORIES; }
static inline size_t ef_cells_of(const ef_plan *p) { return p->width ? (size_t)p->width : 3; }
static inline size_t ef_cell_bytes(const ef_plan *p)
{
    return p->width ? sizeof(int32_t) : sizeof(int64_t);
}
/* The bounds of a race: the first of each feature, then the second of each, and so on. While they are
 * drawn there is room for four features at a time. */
static inline size_t ef_cuts_of(const ef_plan *p)
{
    return (size_t)(p->n_bins - 1) * (size_t)p->max_features;
}
static inline size_t ef_lanes_of(const ef_plan *p)
{
    return ((size_t)p->max_features + 3) & ~(size_t)3;
}

/* How many rows of rare classes are kept beside the window. */
static inline int32_t ef_spare_of(const ef_plan *p)
{
    int32_t spare = p->window >> 3, most = NONE - 1 - p->window;
    spare = spare < SPARES ? spare : SPARES;
    return !p->width ? 0 : spare < most ? spare : most;
}

/* The votes of a leaf in one of its memories; those of the others lie beside them. */
static inline uint32_t *ef_votes_at(const ef_grove *g, const ef_sapling *tree, int memory, int leaf)
{
    size_t at = (size_t)leaf * (size_t)g->memories + (size_t)memory;
    return tree->votes + at * ef_votes_of(&g->plan);
}

static inline int ef_is_rare(const ef_grove *g, uint32_t label)
{
    return g->plan.width && g->counts[label] < (uint32_t)g->quota;
}

static inline int ef_add_leaf(ef_sapling *tree, int depth)
{
    const ef_tip fresh = {0, NONE, 0, NONE, NONE, 0, (uint8_t)depth};
    int node = tree->n_nodes++;
    tree->nodes[node].threshold = (float)INFINITY;
    tree->nodes[node].feature = EF_MISSING_LEFT;
    tree->nodes[node].down = 0;
    tree->tips[node] = fresh;
    return node;
}

static inline int ef_goes_left(float x, unsigned f, float threshold)
{
    int missing_left = (f & EF_MISSING_LEFT) != 0;
    if (f & EF_EQUAL)
        return x != x || x == 0.0f ? missing_left : x == threshold;
    return (x <= threshold) | ((x != x) & missing_left); /* no branch */
}

/* Whether no number of a row is missing. */
static inline int ef_is_whole(const float *row, int32_t m)
{
    int missing = 0;
    for (int32_t f = 0; f < m; f++)
        missing |= row[f] != row[f];
    return !missing;
}

/* The child of a node that a row goes to. */
static inline const ef_fork *ef_next(const ef_fork *node, const float *row)
{
    unsigned f = node->feature;
    return node + node->down + !ef_goes_left(row[f & EF_FEATURE], f, node->threshold);
}

/* The same if no number is missing, and no feature has categories. */
static inline const ef_fork *ef_next_plain(const ef_fork *node, const float *row)
{
    return node + node->down + (row[node->feature & EF_FEATURE] > node->threshold);
}

/* The leaf that a row reaches. */
static inline int ef_find(const ef_sapling *tree, const float *row)
{
    const ef_fork *node = tree->nodes;
    while (!ef_is_leaf(node))
        node = ef_next(node, row);
    return (int)(node - tree->nodes);
}

/* Append a row of the window to the queue of a leaf. */
static inline void ef_put(ef_sapling *tree, int node, uint16_t place)
{
    uint16_t last = tree->tips[node].tail;
    tree->kept[place].leaf = (uint16_t)node;
    tree->kept[place].next = NONE;
    if (last == NONE)
        tree->tips[node].head = place;
    else
        tree->kept[last].next = place;
    tree->tips[node].tail = place;
}

/* Remove the oldest row of the window, the first of its leaf's queue. */
static inline void ef_drop(ef_sapling *tree, uint16_t place)
{
    uint16_t node = tree->kept[place].leaf;
    if (node == NONE)
        return;
    tree->tips[node].head = tree->kept[place].next;
    if (tree->tips[node].head == NONE)
        tree->tips[node].tail = NONE;
}

/* How often a row counts in a tree, by its number modulo LONG. */
static inline unsigned ef_times_of(const ef_grove *g, const ef_sapling *tree, uint32_t number)
{
    uint32_t at = number + tree->shift;
    return g->times[at < LONG ? at : at - LONG];
}

/* Add a target to the sums of a bin. */
static inline void ef_add_target(int64_t *cell, uint32_t target, uint32_t times)
{
    int64_t sum = (int64_t)times * target;
    cell[0] += times;
    cell[1] += sum;
    cell[2] += sum * target;
}

/* End the race of a leaf. */
static inline void ef_release(ef_grove *g, ef_sapling *tree, int node)
{
    g->free_slots[g->n_free++] = tree->tips[node].slot;
    tree->tips[node].slot = NONE;
}

EF_HIDE

/* Give one row of the window to the race of a slot, which counts it before it is judged. */
void ef_live_insert(ef_grove *g, int slot, unsigned place, uint32_t times);

/* Split a leaf if its race is decided; returns how many children went onto the stack. */
int ef_live_look(ef_grove *g, ef_sapling *tree, int node, int n_stack);

/* Start races of the leaves on the stack with the rows of the window that reached them, and likewise
 * of their children. */
void ef_live_grow(ef_grove *g, ef_sapling *tree, int n_stack);

/* Find the bins of a row, given as the numbers of the features of a race. */
void ef_find_bins(const ef_grove *g, int slot, const float *x, uint8_t *bins);

/* Make the histograms of a race empty; and count a row in them, given by its bins. */
void ef_clear_cells(ef_grove *g, int slot);
void ef_count_bins(ef_grove *g, int slot, const uint8_t *bins, uint32_t label, uint32_t times);

/* How many rows a race may list; 0 if it may not. */
int32_t ef_few_room(const ef_plan *p);

/* Add a row, given as the numbers of the features of a race, to its list; returns 0 if there is no room, or
 * a number is missing. */
int ef_few_add(ef_grove *g, int slot, const float *x, uint32_t label, uint32_t times);

/* Count the listed rows into histograms instead; or into that of one feature alone. */
void ef_few_unlist(ef_grove *g, int slot);
void ef_few_histogram(const ef_grove *g, int slot, size_t i, void *to);

/* Whether rows are listed and count too often to be judged by ef_few_best. */
int ef_few_many(const ef_grove *g, int slot);

/* Sum up the rows that are listed, and find the best arm of each feature and its gain. */
void ef_few_best(ef_grove *g, int slot, int64_t *size, ef_real *impurity, ef_real *rest);

/* The place of the largest, the first of equals. */
uint32_t ef_largest(const uint32_t *values, size_t n);

/* Let the linear model learn a row; what it would have answered before is in `alone`. */
void ef_linear_learn(ef_grove *g, const float *row, uint32_t label);

/* Change the votes of the trees for that row into those of whoever answers; what was best lately
 * answers next. */
void ef_linear_judge(ef_grove *g, uint32_t *votes, uint32_t label);

/* Change the votes of the trees for another row in the same way. */
void ef_linear_vote(const ef_grove *g, const float *row, uint32_t *votes);

EF_SHOW
#endif
