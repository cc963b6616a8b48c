/* Trees that learn row by row: Grove of edgeforest/online.py, function by function. */
#include "internal.h"

#define START 16
#define STEP 8
#define PATIENCE 20
#define SURE 1.0
#define PRIOR 1
#define EVERY 200
#define MANY 4096
#define TRIES 8
#define CLEARLY 4
#define FIRST 64
#define UNIT 512
#define LONG 1021
#define MOST (1u << 28)
#define NONE 0xFFFF
#define LOOK 64
#define TOLERANCE 0.1
#define Z 2.25

/* What is needed on the way down lies together. */
typedef struct {
    float threshold;
    uint16_t feature, left, right;
    uint8_t depth;
} ef_fork;

/* One tree while it grows, and the latest rows by the leaf that they are in. */
struct ef_sapling {
    ef_fork *nodes;
    uint16_t *slot, *wait, *head, *tail, *next, *leaf, *features;
    uint32_t *missed, *votes;
    double *importance;
    int32_t better, worse; /* rows since the last contest about which the challenger was less, more wrong */
    int32_t n_nodes;
    uint32_t shift;
};

/* The race of a leaf. Its features, bins, cuts and cells lie in arrays of the grove, by slot. */
struct ef_live {
    int64_t seen, squares, due;
    uint16_t tree, node; /* the tree by its place in memory */
    int32_t n;
};

/* ---- Memory ---- */

typedef struct {
    unsigned char *memory;
    size_t used;
} ef_carve;

static void *carve(ef_carve *c, size_t count, size_t size)
{
    size_t at = (c->used + 7) & ~(size_t)7, bytes = ef_product(count, size);
    c->used = bytes > SIZE_MAX - 7 - at ? SIZE_MAX - 7 : at + bytes;
    return c->memory ? c->memory + at : NULL;
}

static size_t votes_of(const ef_plan *p) { return p->width ? (size_t)p->width : 2; }
static size_t cells_of(const ef_plan *p) { return p->width ? (size_t)p->width : 3; }
static size_t cell_bytes(const ef_plan *p) { return p->width ? sizeof(int32_t) : sizeof(int64_t); }
static size_t padded_cuts(const ef_plan *p) { return ((size_t)p->n_bins + 7) & ~(size_t)7; }

static void lay_out(ef_grove *g, const ef_plan *p, ef_carve *c)
{
    size_t nodes = (size_t)p->nodes, m = (size_t)p->m, window = (size_t)p->window;
    size_t races = (size_t)p->races, some = (size_t)p->max_features;
    g->trees = carve(c, (size_t)p->n_trees + 1, sizeof *g->trees);
    g->order = carve(c, (size_t)p->n_trees + 1, sizeof *g->order);
    g->leaves = carve(c, (size_t)p->n_trees + 1, sizeof *g->leaves);
    g->misses = carve(c, (size_t)p->n_trees + 1, sizeof *g->misses);
    g->out = carve(c, p->width ? (size_t)p->width : 1, sizeof *g->out);
    g->times = carve(c, LONG, 1);
    g->values = carve(c, m * window, sizeof *g->values);
    g->labels = carve(c, window, sizeof *g->labels);
    g->places = carve(c, window, sizeof *g->places);
    g->stack = carve(c, nodes + 1, sizeof *g->stack);
    g->kinds = carve(c, m, sizeof *g->kinds);
    g->free_slots = carve(c, races, sizeof *g->free_slots);
    g->slots = carve(c, races, sizeof *g->slots);
    g->raced = carve(c, races * some, sizeof *g->raced);
    g->bins = carve(c, races * some, 1);
    g->cuts = carve(c, ef_product(races * some, padded_cuts(p)), sizeof *g->cuts);
    g->cells = carve(c, ef_product(ef_product(races * some, (size_t)p->stride), cells_of(p)),
                     cell_bytes(p));
    g->tree.sums = carve(c, 7 * cells_of(p), sizeof *g->tree.sums);
    g->tree.influences = carve(c, 4 * cells_of(p), sizeof *g->tree.influences);
    g->tree.logs = carve(c, p->criterion == EF_ENTROPY ? EF_LOGS : 0, sizeof *g->tree.logs);
    g->new_raced = carve(c, some, sizeof *g->new_raced);
    g->new_bins = carve(c, some, 1);
    g->new_cuts = carve(c, some * padded_cuts(p), sizeof *g->new_cuts);
    g->gains = carve(c, 2 * some, sizeof *g->gains);
    g->contender = carve(c, 1, sizeof *g->contender);
    for (int32_t t = 0; t <= p->n_trees; t++) {
        ef_sapling none, *tree = c->memory ? g->trees + t : &none;
        tree->nodes = carve(c, nodes, sizeof *tree->nodes);
        tree->slot = carve(c, nodes, sizeof *tree->slot);
        tree->wait = carve(c, nodes, sizeof *tree->wait);
        tree->missed = carve(c, nodes, sizeof *tree->missed);
        tree->votes = carve(c, nodes * votes_of(p), sizeof *tree->votes);
        tree->head = carve(c, nodes, sizeof *tree->head);
        tree->tail = carve(c, nodes, sizeof *tree->tail);
        tree->next = carve(c, window, sizeof *tree->next);
        tree->leaf = carve(c, window, sizeof *tree->leaf);
        tree->features = carve(c, m, sizeof *tree->features);
        tree->importance = carve(c, m, sizeof *tree->importance);
    }
}

const char *ef_plan_wrong(const ef_plan *p, const uint16_t *kinds)
{
    int32_t most = p->n_bins;
    EF_NEED(1 <= p->m && p->m <= EF_FEATURE, "features must be from 1 to 16383");
    EF_NEED(p->criterion <= EF_MSE && (p->criterion == EF_MSE) == !p->width && p->width >= 0 &&
                p->width <= EF_CLASSES,
            "classes must be from 1 to 4096, or 0 for a regression");
    EF_NEED(1 <= p->n_trees && p->n_trees <= 4096, "trees must be from 1 to 4096");
    EF_NEED(1 <= p->patch && p->patch <= p->m && 1 <= p->max_features && p->max_features <= p->patch,
            "features to draw must be some of the patch, and those some of all");
    EF_NEED(2 <= p->n_bins && p->n_bins <= 255, "n_bins must be from 2 to 255");
    EF_NEED(1 <= p->max_depth && p->max_depth <= 255, "max_depth must be from 1 to 255");
    EF_NEED(1 <= p->nodes && p->nodes < NONE, "nodes must be from 1 to 65534");
    EF_NEED(1 <= p->races && p->races < NONE, "races must be from 1 to 65534");
    EF_NEED(1 <= p->window && p->window < NONE, "the window must have from 1 to 65534 rows");
    EF_NEED(1 <= p->fade && p->fade <= 4096, "fade must be from 1 to 4096");
    EF_NEED(1 <= p->scale && p->scale <= EF_LEVELS, "the scale must be from 1 to 65535");
    EF_NEED(1 <= p->least && p->least <= EF_MASK, "the least rows must be from 1 to 1073741823");
    for (int32_t f = 0; f < p->m; f++) {
        EF_NEED(kinds[f] < 256, "categories must be at most 255");
        most = kinds[f] > most ? kinds[f] : most;
    }
    EF_NEED(most < p->stride && p->stride <= 256, "the stride must be more than any feature's bins");
    return NULL;
}

size_t ef_grove_bytes(const ef_plan *plan)
{
    ef_carve c = {NULL, 0};
    ef_grove g;
    lay_out(&g, plan, &c);
    return c.used;
}

/* ---- Trees ---- */

static int add_leaf(ef_sapling *tree, int depth)
{
    int node = tree->n_nodes++;
    tree->nodes[node].feature = EF_LEAF;
    tree->nodes[node].depth = (uint8_t)depth;
    tree->slot[node] = tree->head[node] = tree->tail[node] = NONE;
    tree->wait[node] = 0;
    tree->missed[node] = 0;
    return node;
}

static inline int goes_left(float x, unsigned f, float threshold)
{
    if (x != x || ((f & EF_EQUAL) && x == 0.0f))
        return (f & EF_MISSING_LEFT) != 0;
    return f & EF_EQUAL ? x == threshold : x <= threshold;
}

static inline int find(const ef_sapling *tree, const float *row)
{
    const ef_fork *nodes = tree->nodes, *node = nodes;
    for (unsigned f = node->feature; f != EF_LEAF; f = node->feature)
        node = nodes + (goes_left(row[f & EF_FEATURE], f, node->threshold) ? node->left
                                                                          : node->right);
    return (int)(node - nodes);
}

static inline void put(ef_sapling *tree, int node, uint16_t place)
{
    uint16_t last = tree->tail[node];
    tree->leaf[place] = (uint16_t)node;
    tree->next[place] = NONE;
    if (last == NONE)
        tree->head[node] = place;
    else
        tree->next[last] = place;
    tree->tail[node] = place;
}

static inline void drop(ef_sapling *tree, uint16_t place)
{
    uint16_t node = tree->leaf[place];
    if (node == NONE)
        return;
    tree->head[node] = tree->next[place];
    if (tree->head[node] == NONE)
        tree->tail[node] = NONE;
}

/* How often a row counts in a tree, by its number modulo LONG. */
static inline unsigned times_of(const ef_grove *g, const ef_sapling *tree, uint32_t number)
{
    uint32_t at = number + tree->shift;
    return g->times[at < LONG ? at : at - LONG];
}

static void vote(const ef_grove *g, ef_sapling *tree, int leaf, uint32_t label, uint32_t times)
{
    int32_t width = g->plan.width;
    uint32_t fade = g->plan.fade * UNIT;
    uint32_t *votes = tree->votes + (size_t)leaf * votes_of(&g->plan);
    if (!width) {
        if (votes[0] >= fade) {
            votes[0] >>= 1;
            votes[1] >>= 1;
        }
        votes[0] += UNIT * times;
        votes[1] += UNIT * times * label;
        return;
    }
    uint32_t total = 0;
    for (int32_t k = 0; k < width; k++)
        total += votes[k];
    if (total >= fade)
        for (int32_t k = 0; k < width; k++)
            votes[k] >>= 1;
    votes[label] += UNIT * times;
}

/* ---- Races ---- */

static void release(ef_grove *g, ef_sapling *tree, int node)
{
    g->free_slots[g->n_free++] = tree->slot[node];
    tree->slot[node] = NONE;
}

static int slot_for(ef_grove *g, const ef_sapling *tree, int node)
{
    if (g->n_free)
        return g->free_slots[--g->n_free];
    for (int i = 0; i < TRIES; i++) {
        int slot = g->hand;
        g->hand = (slot + 1) % g->plan.races;
        const ef_live *race = g->slots + slot;
        ef_sapling *asleep = g->trees + race->tree;
        if (asleep->missed[race->node] < tree->missed[node]) {
            asleep->slot[race->node] = NONE;
            asleep->wait[race->node] = START;
            return slot;
        }
        asleep->missed[race->node] >>= 1;
    }
    return NONE;
}

/* What bounds the bins of a feature, into `cuts`; returns the number of bins, 0 if it does not
 * vary. */
static int cuts_of(ef_grove *g, int n, unsigned f, float *cuts)
{
    const ef_plan *p = &g->plan;
    const uint16_t *places = g->places;
    const float *values = g->values + f;
    size_t m = (size_t)p->m;
    int look = n < LOOK ? n : LOOK, missing = 0;
    float low = EF_HUGE, high = -EF_HUGE;
    for (int k = 0; k < look; k++) {
        float x = values[places[k * n / look] * m];
        if (x != x)
            missing++;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    if (!(low < high) && !(0 < missing && missing < look))
        return 0;
    if (g->kinds[f])
        return g->kinds[f];
    int found = 0;
    if (p->extra && low < high) {
        double unit = (double)ef_rng_next(&g->rng) / 1073741824.0;
        float x = (float)((double)low + ((double)high - (double)low) * unit);
        cuts[found++] = x < high ? x : low;
    } else if (low < high) {
        int take = p->n_bins - 1 < n / 2 ? p->n_bins - 1 : n / 2;
        if (take < 1)
            take = 1;
        for (int k = 0; k < take; k++) {
            int at = k * n / take + (int)ef_rng_below(&g->rng, (uint32_t)(n / take));
            float x = values[places[at] * m];
            if (!(x < high))
                continue;
            int j = found;
            while (j > 0 && cuts[j - 1] > x)
                j--;
            if (j > 0 && cuts[j - 1] == x)
                continue;
            memmove(cuts + j + 1, cuts + j, (size_t)(found - j) * sizeof *cuts);
            cuts[j] = x;
            found++;
        }
        if (!found)
            cuts[found++] = low;
    }
    for (size_t k = (size_t)found; k < padded_cuts(p); k++)
        cuts[k] = EF_HUGE;
    return found + 1;
}

static void insert(ef_grove *g, int slot, unsigned place, uint32_t times)
{
    const ef_plan *p = &g->plan;
    ef_live *race = g->slots + slot;
    size_t first = (size_t)slot * (size_t)p->max_features, padded = padded_cuts(p);
    size_t width = cells_of(p), stride = (size_t)p->stride;
    uint32_t label = g->labels[place];
    const float *row = g->values + (size_t)place * (size_t)p->m;
    for (int32_t i = 0; i < race->n; i++) {
        size_t c = first + (size_t)i;
        float x = row[g->raced[c]];
        unsigned b = 0, bins = g->bins[c];
        if (g->kinds[g->raced[c]]) {
            b = x >= 1.0f && x <= (float)bins ? (unsigned)x : 0; /* NaN is not */
        } else if (x == x) {
            const float *cuts = g->cuts + c * padded;
            b = 1;
            for (size_t k = 0; k < padded; k += 8) /* no branch */
                for (int j = 0; j < 8; j++)
                    b += cuts[k + (size_t)j] < x;
            b = b < bins ? b : bins; /* an infinite number is beyond the padding, too */
        }
        size_t at = (c * stride + b) * width;
        if (p->width) {
            ((int32_t *)g->cells)[at + label] += (int32_t)times;
        } else {
            int64_t *cells = (int64_t *)g->cells + at;
            cells[0] += times;
            cells[1] += (int64_t)times * label;
            cells[2] += (int64_t)times * label * label;
        }
    }
    race->squares += times * times;
}

static int is_full(const ef_grove *g, const ef_sapling *tree)
{
    return tree->n_nodes + 2 > g->plan.nodes;
}

/* Start the race of a leaf with the rows of it that are kept; whether there is one now. */
static int begin(ef_grove *g, ef_sapling *tree, int node)
{
    const ef_plan *p = &g->plan;
    if (tree->nodes[node].depth >= p->max_depth || is_full(g, tree)) {
        tree->wait[node] = NONE;
        return 0;
    }
    int n = 0, mixed = 0;
    for (uint16_t place = tree->head[node]; place != NONE; place = tree->next[place]) {
        g->places[n++] = place;
        mixed |= g->labels[place] != g->labels[g->places[0]];
    }
    if (2 * n < START) {
        tree->wait[node] = (uint16_t)(START - n);
        return 0;
    }
    if (!mixed)
        return 0;
    /* A slot is taken only if a feature varies. */
    uint16_t *features = tree->features;
    size_t some = (size_t)p->max_features, padded = padded_cuts(p);
    int32_t racing = 0;
    for (int32_t i = 0; racing < p->max_features && i < p->patch; i++) {
        int32_t j = i + (int32_t)ef_rng_below(&g->rng, (uint32_t)(p->patch - i));
        uint16_t f = features[j];
        features[j] = features[i];
        features[i] = f;
        int bins = cuts_of(g, n, f, g->new_cuts + (size_t)racing * padded);
        if (bins) {
            g->new_raced[racing] = f;
            g->new_bins[racing++] = (uint8_t)bins;
        }
    }
    int slot = racing ? slot_for(g, tree, node) : NONE;
    if (slot == NONE) {
        tree->wait[node] = START;
        return 0;
    }
    ef_live *race = g->slots + slot;
    size_t first = (size_t)slot * some, cells = some * (size_t)p->stride * cells_of(p);
    memcpy(g->raced + first, g->new_raced, (size_t)racing * sizeof *g->raced);
    memcpy(g->bins + first, g->new_bins, (size_t)racing);
    memcpy(g->cuts + first * padded, g->new_cuts, (size_t)racing * padded * sizeof *g->cuts);
    memset((unsigned char *)g->cells + (size_t)slot * cells * cell_bytes(p), 0,
           cells / some * (size_t)racing * cell_bytes(p));
    race->tree = (uint16_t)(tree - g->trees);
    race->node = (uint16_t)node;
    race->n = racing;
    race->seen = race->squares = 0;
    tree->slot[node] = (uint16_t)slot;
    /* The numbers of the rows at place 0 of this round and of the one before. */
    int64_t zero = g->seen - 1 - (g->seen - 1) % p->window;
    uint32_t last = (uint32_t)(g->seen - 1 - zero), now = (uint32_t)(zero % LONG);
    uint32_t before = zero ? (uint32_t)((zero - p->window) % LONG) : 0;
    int count = n < FIRST ? n : FIRST; /* from all of them, oldest first */
    for (int i = 0; i < count; i++) {
        unsigned place = g->places[i * n / count];
        unsigned times = times_of(g, tree, ((place <= last ? now : before) + place) % LONG);
        if (times) {
            insert(g, slot, place, times);
            race->seen++;
        }
    }
    race->due = race->seen + (race->seen >> 2) + STEP;
    return 1;
}

/* Give the first votes to a new leaf: the rows that were counted for it, and a little of its
 * parent. */
static void endow(const ef_grove *g, ef_sapling *tree, int node, int child, const int64_t *cells)
{
    size_t width = votes_of(&g->plan);
    const uint32_t *before = tree->votes + (size_t)node * width;
    uint32_t *votes = tree->votes + (size_t)child * width;
    int64_t size = 0, all = 0;
    if (g->plan.width) {
        for (size_t k = 0; k < width; k++) {
            size += cells[k];
            all += before[k];
        }
    } else {
        size = cells[0];
        all = before[0];
    }
    int64_t fade = g->plan.fade, room = (size < fade ? size : fade) * UNIT;
    for (size_t k = 0; k < width; k++) {
        votes[k] = (uint32_t)(cells[k] * room / size);
        if (all)
            votes[k] += (uint32_t)((int64_t)PRIOR * UNIT * before[k] / all);
    }
}

/* Split a leaf by the contender in hand, whose cells of the left are in `left`; its children go
 * onto the stack. */
static void split(ef_grove *g, ef_sapling *tree, int node, const ef_contender *lead, int n_stack)
{
    const ef_plan *p = &g->plan;
    int slot = tree->slot[node];
    size_t width = cells_of(p);
    int64_t *total = g->tree.sums, *left = total + width, *right = left + width, size, on_left;
    int missing_left = ef_weigh_sides(&g->tree, lead, &size, &on_left);
    missing_left = missing_left < 0 ? 2 * on_left > size : missing_left;
    const float *cuts = g->cuts + ((size_t)slot * (size_t)p->max_features +
                                   (size_t)g->lead) * padded_cuts(p);
    float threshold = lead->equal ? (float)lead->bin : lead->bin < lead->bins ? cuts[lead->bin - 1]
                                                                              : EF_HUGE;
    tree->importance[lead->feature] += lead->gain * (double)size;
    release(g, tree, node);
    int a = add_leaf(tree, tree->nodes[node].depth + 1), b = add_leaf(tree, tree->nodes[node].depth + 1);
    tree->nodes[node].left = (uint16_t)a;
    tree->nodes[node].right = (uint16_t)b;
    tree->nodes[node].threshold = threshold;
    unsigned f = lead->feature | (lead->equal ? EF_EQUAL : 0u) |
                 (missing_left ? EF_MISSING_LEFT : 0u);
    for (size_t k = 0; k < width; k++)
        right[k] = total[k] - left[k];
    endow(g, tree, node, a, left);
    endow(g, tree, node, b, right);
    tree->nodes[node].feature = (uint16_t)f;
    for (uint16_t place = tree->head[node], after; place != NONE; place = after) {
        after = tree->next[place];
        float x = g->values[(size_t)place * (size_t)p->m + lead->feature];
        put(tree, goes_left(x, f, threshold) ? a : b, place);
    }
    g->stack[n_stack] = (uint16_t)b;
    g->stack[n_stack + 1] = (uint16_t)a;
}

/* Split a leaf if its race is decided; returns how many children went onto the stack. */
static int look(ef_grove *g, ef_sapling *tree, int node, int n_stack)
{
    const ef_plan *p = &g->plan;
    int slot = tree->slot[node];
    ef_live *race = g->slots + slot;
    ef_contender *c = g->contender, lead;
    size_t first = (size_t)slot * (size_t)p->max_features;
    size_t of_one = (size_t)p->stride * cells_of(p);
    double *gains = g->gains, *variances = g->gains + p->max_features;
    double impurity = 0.0, rest = 0.0;
    int64_t size = 0;
    int found = -1, full = is_full(g, tree); /* meanwhile, by the splits of others */
    g->tree.cells = g->cells;
    for (int32_t i = 0; !full && race->seen && i < race->n; i++) {
        c->feature = g->raced[first + (size_t)i];
        c->bins = g->bins[first + (size_t)i];
        c->equal = g->kinds[c->feature] > 0;
        c->h = (first + (size_t)i) * of_one;
        if (i == 0) {
            size = ef_sum_up(&g->tree, c, &impurity);
            if (impurity <= 0)
                break;
            rest = (double)race->squares / (double)(size * size);
        }
        gains[i] = -EF_HUGE;
        if (!ef_best(&g->tree, c, size, p->least, rest))
            continue;
        gains[i] = c->gain;
        variances[i] = c->variance;
        if (found < 0 || c->gain > gains[found]) {
            found = i;
            memcpy(&lead, c, EF_CONTENDER_HEAD);
        }
    }
    int decided = found >= 0 && !(lead.gain <= SURE * sqrt(lead.variance));
    if (decided && size < PATIENCE) {
        double slack = TOLERANCE * lead.gain, least = EF_TOLERANCE_IMPURITY * impurity;
        slack = least > slack ? least : slack;
        for (int32_t i = 0; decided && i < race->n; i++)
            if (i != found && gains[i] > -EF_HUGE)
                decided = !(gains[i] - lead.gain + Z * sqrt(variances[i] + lead.variance) > slack);
    }
    if (decided) {
        g->lead = found;
        split(g, tree, node, &lead, n_stack);
        return 2;
    }
    if (full || race->seen >= MANY)
        release(g, tree, node);
    return 0;
}

/* Let the leaves on the stack race over the rows of them that are kept, and so their children. */
static void grow(ef_grove *g, ef_sapling *tree, int n_stack)
{
    while (n_stack) {
        int node = g->stack[--n_stack];
        if (begin(g, tree, node))
            n_stack += look(g, tree, node, n_stack);
    }
}

/* ---- Rows ---- */

/* Add the votes of a leaf to `out`; returns how wrong they are about this label. */
static inline uint32_t ask(const ef_grove *g, const ef_sapling *tree, int leaf, uint32_t label,
                           uint32_t *out)
{
    int32_t width = g->plan.width;
    const uint32_t *votes = tree->votes + (size_t)leaf * votes_of(&g->plan);
    if (!width) {
        uint32_t n = votes[0], level = n ? (uint32_t)((2 * (uint64_t)votes[1] + n) / (2 * n)) : 0;
        if (out)
            out[0] += level;
        return level > label ? level - label : label - level;
    }
    uint32_t total = 0;
    int32_t best = 0;
    for (int32_t k = 0; k < width; k++) {
        total += votes[k];
        if (votes[k] > votes[best])
            best = k;
    }
    if (out && total) {
        if (votes[best] == total) {
            out[best] += g->plan.scale;
        } else {
            uint32_t upto = 0, before = 0;
            for (int32_t k = 0; k < width; k++) /* shares that add up */
                if (votes[k]) {
                    upto += votes[k];
                    uint32_t now = (2 * upto * g->plan.scale + total) / (2 * total);
                    out[k] += now - before;
                    before = now;
                }
        }
    }
    return (uint32_t)best != label;
}

static uint16_t keep(ef_grove *g, const float *row, uint16_t label)
{
    const ef_plan *p = &g->plan;
    uint16_t place = (uint16_t)(g->seen % p->window);
    if (g->seen >= p->window)
        for (int32_t t = 0; t <= p->n_trees; t++)
            drop(g->trees + t, place);
    memcpy(g->values + (size_t)place * (size_t)p->m, row, (size_t)p->m * sizeof *row);
    g->labels[place] = label;
    return place;
}

/* Take all nodes out of a tree; their races end. */
static void clear(ef_grove *g, ef_sapling *tree)
{
    for (int node = 0; node < tree->n_nodes; node++)
        if (tree->nodes[node].feature == EF_LEAF && tree->slot[node] != NONE)
            release(g, tree, node);
    tree->n_nodes = 0;
    memset(tree->leaf, 0xFF, (size_t)g->plan.window * sizeof *tree->leaf); /* rows are in none */
}

static void reset(ef_grove *g, ef_sapling *tree, int64_t rows)
{
    const ef_plan *p = &g->plan;
    clear(g, tree);
    tree->better = tree->worse = 0;
    add_leaf(tree, 0);
    memset(tree->votes, 0, votes_of(p) * sizeof *tree->votes);
    tree->shift = ef_rng_below(&g->rng, LONG);
    if (p->patch < p->m) {
        int32_t count = p->patch < p->m - 1 ? p->patch : p->m - 1;
        for (int32_t i = 0; i < count; i++) {
            int32_t j = i + (int32_t)ef_rng_below(&g->rng, (uint32_t)(p->m - i));
            uint16_t f = tree->features[i];
            tree->features[i] = tree->features[j];
            tree->features[j] = f;
        }
    }
    for (int32_t f = 0; f < p->m; f++)
        tree->importance[f] = 0.0;
    for (int64_t number = g->seen - rows; number < g->seen; number++) {
        uint16_t place = (uint16_t)(number % p->window);
        put(tree, 0, place);
        unsigned times = times_of(g, tree, (uint32_t)(number % LONG));
        if (times)
            vote(g, tree, 0, g->labels[place], times);
    }
    if (rows) {
        g->stack[0] = 0;
        grow(g, tree, 1);
    }
}

static void contest(ef_grove *g)
{
    const ef_plan *p = &g->plan;
    int32_t last = p->n_trees, worst = 0, lead = 0, rows = 0;
    for (int32_t t = 0; t < last; t++) {
        const ef_sapling *tree = g->trees + g->order[t];
        if (t == 0 || tree->better - tree->worse > lead) {
            worst = t;
            lead = tree->better - tree->worse;
            rows = tree->better + tree->worse;
        }
    }
    if (lead > 0 && lead * lead > CLEARLY * rows) {
        uint16_t other = g->order[worst];
        g->order[worst] = g->order[last];
        g->order[last] = other;
    }
    for (int32_t t = 0; t <= last; t++)
        g->trees[t].better = g->trees[t].worse = 0;
    g->half ^= 1;
    reset(g, g->trees + g->order[last], (g->seen < p->window ? g->seen : p->window) >> g->half);
}

static uint32_t learn(ef_grove *g, const float *row, uint16_t label)
{
    const ef_plan *p = &g->plan;
    size_t width = p->width ? (size_t)p->width : 1;
    memset(g->out, 0, width * sizeof *g->out);
    for (int32_t t = 0; t <= p->n_trees; t++) {
        ef_sapling *tree = g->trees + g->order[t];
        int leaf = find(tree, row);
        uint32_t miss = ask(g, tree, leaf, label, t < p->n_trees ? g->out : NULL);
        g->leaves[t] = (uint16_t)leaf;
        g->misses[t] = miss;
        if (tree->missed[leaf] < MOST)
            tree->missed[leaf] += p->width ? miss : miss >> 8;
    }
    for (int32_t t = 0; t < p->n_trees; t++) {
        ef_sapling *tree = g->trees + g->order[t];
        tree->better += g->misses[p->n_trees] < g->misses[t];
        tree->worse += g->misses[p->n_trees] > g->misses[t];
    }
    uint16_t place = keep(g, row, label);
    uint32_t number = (uint32_t)(g->seen++ % LONG);
    for (int32_t t = 0; t <= p->n_trees; t++) {
        ef_sapling *tree = g->trees + g->order[t];
        int leaf = g->leaves[t];
        unsigned times = times_of(g, tree, number);
        put(tree, leaf, place);
        if (times)
            vote(g, tree, leaf, label, times);
        int slot = tree->slot[leaf];
        if (slot != NONE) {
            if (!times)
                continue;
            ef_live *race = g->slots + slot;
            insert(g, slot, place, times);
            if (++race->seen >= race->due) {
                race->due = race->seen + (race->seen >> 2) + STEP;
                grow(g, tree, look(g, tree, leaf, 0));
            }
        } else if (tree->wait[leaf]) {
            tree->wait[leaf]--;
        } else if (g->misses[t]) {
            g->stack[0] = (uint16_t)leaf;
            grow(g, tree, 1);
        }
    }
    if (g->seen % EVERY == 0)
        contest(g);
    uint32_t best = 0;
    for (size_t k = 1; k < width; k++)
        if (g->out[k] > g->out[best])
            best = (uint32_t)k;
    return p->width ? best : g->out[0];
}

/* ---- What the caller uses ---- */

void ef_grove_begin(ef_grove *g, const ef_plan *plan, const uint16_t *kinds, void *memory)
{
    ef_carve c = {memory, 0};
    memset(g, 0, sizeof *g);
    g->plan = *plan;
    lay_out(g, plan, &c);
    memcpy(g->kinds, kinds, (size_t)plan->m * sizeof *kinds);
    g->task.criterion = plan->criterion;
    g->tree.task = &g->task;
    g->tree.width = (int32_t)cells_of(plan);
    if (plan->criterion == EF_ENTROPY)
        for (int i = 0; i < EF_LOGS; i++)
            g->tree.logs[i] = i ? log((double)i) : 0.0;
    ef_rng_begin(&g->rng, plan->seed, plan->stream);
    for (int i = 0; i < LONG; i++) {
        double u = (double)ef_rng_next(&g->rng) / 1073741824.0;
        int k = 0;
        if (plan->rows > 0) {
            k = u < plan->rows;
        } else {
            double part = exp(-1.0), upto = part;
            while (u >= upto && k < 7) {
                part /= ++k;
                upto += part;
            }
        }
        g->times[i] = (uint8_t)k;
    }
    for (int32_t i = 0; i < plan->races; i++)
        g->free_slots[i] = (uint16_t)(plan->races - 1 - i);
    g->n_free = plan->races;
    for (int32_t t = 0; t <= plan->n_trees; t++) {
        ef_sapling *tree = g->trees + t;
        g->order[t] = (uint16_t)t;
        tree->n_nodes = 0;
        for (int32_t f = 0; f < plan->m; f++)
            tree->features[f] = (uint16_t)f;
        reset(g, tree, 0);
    }
}

static int known(const ef_plan *p, uint32_t label)
{
    return p->width ? label < (uint32_t)p->width : label <= p->scale;
}

const char *ef_grove_rows_wrong(const ef_grove *g, const float *rows, const uint16_t *labels,
                                size_t n)
{
    size_t m = (size_t)g->plan.m;
    for (size_t i = 0; i < n; i++)
        EF_NEED(known(&g->plan, labels[i]), "a label is not among the classes or levels");
    for (size_t f = 0; f < m; f++)
        for (size_t i = 0; g->kinds[f] && i < n; i++) {
            float x = rows[i * m + f];
            EF_NEED(x != x || (x >= 0.0f && x <= (float)g->kinds[f] && x == (float)(int)x),
                    "a category must be the number of one of them, or NaN");
        }
    return NULL;
}

size_t ef_grove_learn(ef_grove *g, const float *rows, const uint16_t *labels, size_t n,
                      uint32_t *guesses)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t label = labels[i];
        if (!known(&g->plan, label))
            return i;
        guesses[i] = learn(g, rows + i * (size_t)g->plan.m, label);
    }
    return n;
}

static const char *tree_wrong(const ef_plan *p, int32_t n, const uint16_t *feature,
                              const uint16_t *left, const uint16_t *right, const uint32_t *votes)
{
    size_t width = votes_of(p);
    EF_NEED(1 <= n && n <= p->nodes, "a tree must have from 1 node to those of the plan");
    for (int32_t i = 0; i < n; i++) {
        uint64_t total = 0;
        for (size_t k = 0; k < (p->width ? width : 1); k++)
            total += votes[(size_t)i * width + k];
        EF_NEED(total < 0x80000000u, "the votes of a node must be fewer than 2147483648");
        if (feature[i] == EF_LEAF)
            continue;
        EF_NEED((feature[i] & EF_FEATURE) < p->m, "a node asks for a feature that there is not");
        EF_NEED(i < left[i] && left[i] < n && i < right[i] && right[i] < n,
                "children must be among the nodes after their parent");
    }
    return NULL;
}

const char *ef_grove_plant(ef_grove *g, int32_t t, int32_t n, const uint16_t *feature,
                           const float *threshold, const uint16_t *left, const uint16_t *right,
                           const uint32_t *votes, const double *gains)
{
    ef_sapling *tree = g->trees + g->order[t];
    const char *wrong = tree_wrong(&g->plan, n, feature, left, right, votes);
    EF_NEED(!wrong, wrong);
    clear(g, tree);
    for (int32_t i = 0; i < n; i++)
        add_leaf(tree, 0);
    for (int32_t i = 0; i < n; i++) {
        ef_fork *node = tree->nodes + i;
        node->feature = feature[i];
        node->threshold = threshold[i];
        node->left = left[i];
        node->right = right[i];
    }
    memcpy(tree->votes, votes, (size_t)n * votes_of(&g->plan) * sizeof *votes);
    memcpy(tree->importance, gains, (size_t)g->plan.m * sizeof *gains);
    for (int32_t i = 0; i < n; i++)
        if (feature[i] != EF_LEAF) {
            int depth = tree->nodes[i].depth < 255 ? tree->nodes[i].depth + 1 : 255;
            tree->nodes[left[i]].depth = tree->nodes[right[i]].depth = (uint8_t)depth;
        }
    return NULL;
}

size_t ef_grove_recall(ef_grove *g, const float *rows, const uint16_t *labels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = rows + i * (size_t)g->plan.m;
        uint16_t label = labels[i];
        if (!known(&g->plan, label))
            return i;
        uint16_t place = keep(g, row, label);
        g->seen++;
        for (int32_t t = 0; t <= g->plan.n_trees; t++)
            put(g->trees + t, find(g->trees + t, row), place);
    }
    return n;
}

void ef_grove_renew(ef_grove *g, int32_t t)
{
    reset(g, g->trees + g->order[t], g->seen < g->plan.window ? g->seen : g->plan.window);
}

int32_t ef_grove_size(const ef_grove *g, int32_t t) { return g->trees[g->order[t]].n_nodes; }

void ef_grove_tree(const ef_grove *g, int32_t t, uint16_t *feature, float *threshold,
                   uint16_t *left, uint16_t *right, uint32_t *votes, double *gains)
{
    const ef_sapling *tree = g->trees + g->order[t];
    size_t n = (size_t)tree->n_nodes;
    for (size_t i = 0; i < n; i++) {
        feature[i] = tree->nodes[i].feature;
        threshold[i] = tree->nodes[i].threshold;
        left[i] = tree->nodes[i].left;
        right[i] = tree->nodes[i].right;
    }
    memcpy(votes, tree->votes, n * votes_of(&g->plan) * sizeof *votes);
    memcpy(gains, tree->importance, (size_t)g->plan.m * sizeof *gains);
}
