/* Trees that learn row by row: each row is predicted, then learned. Grove of edgeforest/grove.py.
 *
 * The latest rows are kept in a window, so that a new race can start with rows that are there; rows of
 * classes that are rare in it are kept longer, beside it. One more tree than votes is learning; it may
 * replace the worst. A leaf may have several memories, which fade at other rates; the one that was best
 * lately votes.
 */
#include "online.h"

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

static void lay_out(ef_grove *g, const ef_plan *p, ef_carve *c)
{
    size_t nodes = (size_t)p->nodes, m = (size_t)p->m, window = (size_t)p->window;
    size_t memories = (size_t)ef_memories_of(p), spare = (size_t)ef_spare_of(p);
    size_t races = (size_t)p->races, some = (size_t)p->max_features;
    g->trees = carve(c, (size_t)p->n_trees + 1, sizeof *g->trees);
    g->order = carve(c, (size_t)p->n_trees + 1, sizeof *g->order);
    g->leaves = carve(c, (size_t)p->n_trees + 1, sizeof *g->leaves);
    g->misses = carve(c, (size_t)p->n_trees + 1, sizeof *g->misses);
    g->drawn = carve(c, (size_t)p->n_trees + 1, 1);
    g->out = carve(c, memories * (p->width ? (size_t)p->width : 1), sizeof *g->out);
    g->counts = carve(c, (size_t)p->width, sizeof *g->counts);
    g->numbers = carve(c, spare, sizeof *g->numbers);
    g->times = carve(c, LONG, 1);
    g->values = carve(c, m * (window + spare), sizeof *g->values);
    g->labels = carve(c, window + spare, sizeof *g->labels);
    g->places = carve(c, window + spare, sizeof *g->places);
    g->stack = carve(c, nodes + 1, sizeof *g->stack);
    g->kinds = carve(c, m, sizeof *g->kinds);
    g->free_slots = carve(c, races, sizeof *g->free_slots);
    g->slots = carve(c, races, sizeof *g->slots);
    g->raced = carve(c, races * some, sizeof *g->raced);
    g->bins = carve(c, races * some, 1);
    g->cuts = carve(c, ef_product(races, ef_cuts_of(p)), sizeof *g->cuts);
    g->waiting = carve(c, ef_product(races * some, WAITING), sizeof *g->waiting);
    g->cells = carve(c, ef_product(ef_product(races * some, (size_t)p->stride), ef_cells_of(p)),
                     ef_cell_bytes(p));
    g->tree.sums = carve(c, 7 * ef_cells_of(p), sizeof *g->tree.sums);
    g->tree.influences = carve(c, 4 * ef_cells_of(p), sizeof *g->tree.influences);
    g->tree.logs = carve(c, p->criterion == EF_ENTROPY ? EF_LOGS : 0, sizeof *g->tree.logs);
    g->new_raced = carve(c, some, sizeof *g->new_raced);
    g->new_bins = carve(c, some, 1);
    g->new_cuts = carve(c, ef_lanes_of(p) * (size_t)p->n_bins, sizeof *g->new_cuts);
    g->lane_values = carve(c, some, sizeof *g->lane_values);
    g->lane_bins = carve(c, ef_lanes_of(p), sizeof *g->lane_bins);
    g->spans.low = carve(c, m, sizeof *g->spans.low);
    g->spans.high = carve(c, m, sizeof *g->spans.high);
    g->spans.missing = carve(c, m, sizeof *g->spans.missing);
    g->gains = carve(c, some, sizeof *g->gains);
    g->arms = carve(c, some, sizeof *g->arms);
    g->contender = carve(c, 1, sizeof *g->contender);
    size_t linear = p->inputs ? 1 : 0, width = linear * (size_t)p->width;
    g->weights = carve(c, ef_product(EF_RATES * width, (size_t)p->inputs), sizeof *g->weights);
    g->means = carve(c, linear * m, sizeof *g->means);
    g->squares = carve(c, linear * m, sizeof *g->squares);
    g->scaled = carve(c, linear * (m + 1), sizeof *g->scaled);
    g->inputs = carve(c, linear * (m + 1), sizeof *g->inputs);
    g->counted = carve(c, linear * m, sizeof *g->counted);
    g->shares = carve(c, width, sizeof *g->shares);
    g->alone = carve(c, EF_RATES * width, sizeof *g->alone);
    g->mixed = carve(c, width, sizeof *g->mixed);
    for (int32_t t = 0; t <= p->n_trees; t++) {
        ef_sapling none, *tree = c->memory ? g->trees + t : &none;
        tree->nodes = carve(c, nodes, sizeof *tree->nodes);
        tree->tips = carve(c, nodes, sizeof *tree->tips);
        tree->votes = carve(c, memories * nodes * ef_votes_of(p), sizeof *tree->votes);
        tree->kept = carve(c, window, sizeof *tree->kept);
        tree->spares = carve(c, spare, sizeof *tree->spares);
        tree->features = carve(c, m, sizeof *tree->features);
        tree->importance = carve(c, m, sizeof *tree->importance);
    }
}

const char *ef_plan_wrong(const ef_plan *p, const uint16_t *kinds)
{
    int32_t most = p->n_bins, inputs = 1;
    EF_NEED(1 <= p->m && p->m <= EF_FEATURE, "features must be from 1 to 16383");
    EF_NEED(p->criterion <= EF_MSE && (p->criterion == EF_MSE) == !p->width && p->width >= 0 &&
                p->width <= EF_CLASSES,
            "classes must be from 1 to 4096, or 0 for a regression");
    EF_NEED(1 <= p->n_trees && p->n_trees <= 4096, "trees must be from 1 to 4096");
    EF_NEED(1 <= p->patch && p->patch <= p->m && 1 <= p->max_features && p->max_features <= p->patch,
            "max_features must be at most the features of the patch, and these at most all");
    EF_NEED(2 <= p->n_bins && p->n_bins <= 255, "n_bins must be from 2 to 255");
    EF_NEED(1 <= p->max_depth && p->max_depth <= 255, "max_depth must be from 1 to 255");
    EF_NEED(1 <= p->nodes && p->nodes < NONE, "nodes must be from 1 to 65534");
    EF_NEED(1 <= p->races && p->races < NONE, "races must be from 1 to 65534");
    EF_NEED(1 <= p->window && p->window < NONE, "window must be from 1 to 65534 rows");
    EF_NEED(p->fade <= 4096, "fade must be from 0 to 4096");
    EF_NEED(1 <= p->scale && p->scale <= EF_LEVELS, "scale must be from 1 to 65535");
    EF_NEED(1 <= p->least && p->least <= EF_MASK, "least must be from 1 to 1073741823 rows");
    for (int32_t f = 0; f < p->m; f++) {
        EF_NEED(kinds[f] < 256, "categories must be at most 255");
        most = kinds[f] > most ? kinds[f] : most;
        inputs += kinds[f] ? kinds[f] + 1 : 1;
    }
    EF_NEED(most < p->stride && p->stride <= 256,
            "stride must be above the bins of every feature, and at most 256");
    EF_NEED(!p->inputs || (p->width && p->inputs == inputs),
            "inputs must be 0, or those of all features and one more, of a classification");
    return NULL;
}

size_t ef_grove_bytes(const ef_plan *plan)
{
    ef_carve c = {NULL, 0};
    ef_grove g;
    lay_out(&g, plan, &c);
    return c.used;
}

/* ---- Rows ---- */

/* Add a row of a regression to the sums of a leaf in one of its memories; old rows fade. */
static inline void sum_in(uint32_t *votes, uint32_t fade, uint32_t label, uint32_t times)
{
    int half = (votes[0] >= fade) & (times > 0);
    votes[0] = (votes[0] >> half) + UNIT * times;
    votes[1] = (votes[1] >> half) + UNIT * times * label;
}

/* n / d, without the division: `per` is 1 / d. */
static inline uint32_t divided(uint32_t n, uint32_t d, double per)
{
    uint32_t q = (uint32_t)(int64_t)((double)n * per);
    return q + (n - q * d >= d); /* rounded, it may be one too small where d divides n */
}

/* Sum up the votes of a leaf; `best` is the class that has most, the first of equals. */
static inline uint32_t sum_up(const uint32_t *votes, int32_t width, uint32_t *best, uint32_t *top)
{
    uint32_t total = votes[0], most = votes[0], place = 0;
    for (int32_t k = 1; k < width; k++) { /* no branch */
        total += votes[k];
        place = votes[k] > most ? (uint32_t)k : place;
        most = votes[k] > most ? votes[k] : most;
    }
    *best = place;
    *top = most;
    return total;
}

/* Add the votes of a leaf to `out`, which has a place for each class; then halve them if `fade` is not more
 * than their sum. Returns the class that has most. */
static inline uint32_t ask_classes(uint32_t *votes, int32_t width, uint32_t scale, uint32_t fade,
                                   uint32_t *out)
{
    uint32_t best, top, total = sum_up(votes, width, &best, &top), upto = 0, before = 0;
    int half = total >= fade;
    if (top == total) {
        out[best] += total ? scale : 0;
        votes[best] >>= half;
        return best;
    }
    double per = 1 / (2 * (double)total);
    for (int32_t k = 0; k + 1 < width; k++) { /* shares that add up */
        upto += votes[k];
        uint32_t now = divided(2 * upto * scale + total, 2 * total, per);
        out[k] += now - before;
        before = now;
        votes[k] >>= half;
    }
    out[width - 1] += scale - before;
    votes[width - 1] >>= half;
    return best;
}

/* The level of a leaf of a regression. */
static inline uint32_t ask_level(const uint32_t *votes, uint32_t scale)
{
    uint32_t n = votes[0], level = 0;
    if (n) /* doubles are exact here, and divide faster */
        level = (uint32_t)(int64_t)((2 * (double)votes[1] + (double)n) / (2 * (double)n));
    return level > scale ? scale : level; /* halved totals may lie a little above the levels of rows */
}

/* The same for two classes. */
static inline uint32_t ask_two(uint32_t *votes, uint32_t scale, uint32_t fade, uint32_t *out)
{
    uint32_t a = votes[0], b = votes[1], total = a + b, share = a ? scale : 0;
    int half = total >= fade;
    if (a && b)
        share = divided(2 * a * scale + total, 2 * total, 1 / (2 * (double)total));
    out[0] += share;
    out[1] += (total ? scale : 0) - share;
    votes[0] = a >> half;
    votes[1] = b >> half;
    return b > a;
}

/* What all trees are asked about a row: whoever calls ask_leaf with a constant width has loops of its own. */
typedef struct {
    uint32_t scale, label, fades[4];
    int32_t memory, memories; /* the one that votes, and how many there are */
} ef_question;

#ifdef __GNUC__
/* ask_leaf for two classes and three memories, side by side: `out` has four places for each class. */
static inline uint32_t ask_pairs(const ef_question *q, uint32_t *votes, uint32_t times, uint32_t *out)
{
    ef_words a = {votes[0], votes[2], votes[4], 0}, b = {votes[1], votes[3], votes[5], 0};
    ef_words total = a + b, twice = total + total, n = (a + a) * q->scale + total;
    ef_words some = (ef_words)((ef_mask)total > 0), wins = (ef_words)((ef_mask)b > (ef_mask)a);
    ef_words half = (ef_words)((ef_mask)total >= (ef_mask)ef_load_words(q->fades));
    ef_four about = __builtin_convertvector((ef_mask)n, ef_four);
    about /= __builtin_convertvector((ef_mask)twice, ef_four);
    ef_words share = (ef_words)__builtin_convertvector(about, ef_mask);
    ef_words rest = n - share * twice; /* floats are exact to one vote: what is true is -1 */
    share += (ef_words)((ef_mask)rest < 0) - (ef_words)((ef_mask)rest >= (ef_mask)twice);
    share &= some;
    ef_words to_a = ef_load_words(out) + share, to_b = ef_load_words(out + 4);
    to_b += (some & q->scale) - share;
    memcpy(out, &to_a, sizeof to_a);
    memcpy(out + 4, &to_b, sizeof to_b);
    if (times) {
        a = (a & ~half) | (half & (a >> 1));
        b = (b & ~half) | (half & (b >> 1));
        a += q->label ? 0 : UNIT * times;
        b += q->label ? UNIT * times : 0;
        for (int k = 0; k < 3; k++) {
            votes[2 * k] = a[k];
            votes[2 * k + 1] = b[k];
        }
    }
    uint32_t best[4];
    memcpy(best, &wins, sizeof best);
    return (best[q->memory] & 1) != q->label;
}
#endif

/* Let a leaf answer from all of its memories, into `out`, and learn a row of a class that counts so many
 * times. Returns whether the memory that votes is wrong. */
EF_INLINE uint32_t ask_leaf(const ef_question *q, uint32_t *votes, int32_t width, uint32_t times,
                            uint32_t *out)
{
    uint32_t miss = 0;
    for (int32_t k = 0; k < q->memories; k++, votes += width, out += width) {
        uint32_t fade = times ? q->fades[k] : UINT32_MAX; /* it has fewer votes than that */
        uint32_t best = width == 2 ? ask_two(votes, q->scale, fade, out)
                                   : ask_classes(votes, width, q->scale, fade, out);
        miss = k == q->memory ? best != q->label : miss;
        votes[q->label] += UNIT * times;
    }
    return miss;
}

/* The same for a regression; returns how wrong it is. */
EF_INLINE uint32_t ask_sums(const ef_question *q, uint32_t *votes, uint32_t times, uint32_t *out)
{
    uint32_t miss = 0;
    for (int32_t k = 0; k < q->memories; k++, votes += 2) {
        uint32_t level = ask_level(votes, q->scale);
        uint32_t off = level > q->label ? level - q->label : q->label - level;
        out[k] += level;
        miss = k == q->memory ? off : miss;
        sum_in(votes, q->fades[k], q->label, times);
    }
    return miss;
}

/* Add what a leaf says from one of its memories to `out`. */
static void ask(const ef_grove *g, uint32_t *votes, uint32_t *out)
{
    if (!g->plan.width)
        out[0] += ask_level(votes, g->plan.scale);
    else
        ask_classes(votes, g->plan.width, g->plan.scale, UINT32_MAX, out);
}

/* Add a row to the votes of a leaf in all memories. */
static void vote(const ef_grove *g, uint32_t *votes, uint32_t label, uint32_t times)
{
    int32_t width = g->plan.width;
    for (int k = 0; times && k < g->memories; k++, votes += width ? width : 2) {
        uint32_t fade = g->fades[k] * UNIT, best, top;
        if (!width) {
            sum_in(votes, fade, label, times);
            continue;
        }
        int half = sum_up(votes, width, &best, &top) >= fade;
        for (int32_t j = 0; half && j < width; j++)
            votes[j] >>= 1;
        votes[label] += UNIT * times;
    }
}

/* Keep a row of a rare class in place of the oldest of them. */
static void store(ef_grove *g, const float *row, uint16_t label, int64_t number)
{
    const ef_plan *p = &g->plan;
    int32_t spare = (int32_t)(g->stored++ % g->spare);
    size_t place = (size_t)p->window + (size_t)spare;
    g->numbers[spare] = (uint16_t)(number % LONG);
    g->labels[place] = label;
    g->some_missing |= !ef_is_whole(row, p->m);
    memcpy(g->values + place * (size_t)p->m, row, (size_t)p->m * sizeof *row);
    for (int32_t t = 0; t <= p->n_trees; t++)
        g->trees[t].spares[spare] = (uint16_t)ef_find(g->trees + t, row);
}

/* Take the oldest row out of the window; one of a rare class is kept beside it. */
static void forget(ef_grove *g, uint16_t place)
{
    const ef_plan *p = &g->plan;
    uint16_t label = g->labels[place];
    if (p->width) {
        g->counts[label]--;
        if (g->spare && ef_is_rare(g, label))
            store(g, g->values + (size_t)place * (size_t)p->m, label, g->seen - p->window);
    }
    for (int32_t t = 0; t <= p->n_trees; t++)
        ef_drop(g->trees + t, place);
}

/* Put a row into the window, in place of the oldest; returns its place. */
static uint16_t keep(ef_grove *g, const float *row, uint16_t label)
{
    const ef_plan *p = &g->plan;
    uint16_t place = (uint16_t)(g->seen % p->window);
    if (g->seen >= p->window)
        forget(g, place);
    memcpy(g->values + (size_t)place * (size_t)p->m, row, (size_t)p->m * sizeof *row);
    g->labels[place] = label;
    g->some_missing |= !ef_is_whole(row, p->m);
    if (p->width)
        g->counts[label]++;
    return place;
}

/* Remove all nodes of a tree; their races end. */
static void clear(ef_grove *g, ef_sapling *tree)
{
    for (int node = 0; node < tree->n_nodes; node++)
        if (ef_is_leaf(tree->nodes + node) && tree->tips[node].slot != NONE)
            ef_release(g, tree, node);
    tree->n_nodes = 0;
    memset(tree->kept, 0xFF, (size_t)g->plan.window * sizeof *tree->kept); /* rows in no leaf */
    memset(tree->spares, 0xFF, (size_t)g->spare * sizeof *tree->spares);
}

/* Grow a tree anew from the latest `rows` rows. */
static void reset(ef_grove *g, ef_sapling *tree, int64_t rows)
{
    const ef_plan *p = &g->plan;
    clear(g, tree);
    tree->better = tree->worse = 0;
    ef_add_leaf(tree, 0);
    memset(tree->votes, 0, (size_t)g->memories * ef_votes_of(p) * sizeof *tree->votes);
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
    for (int32_t i = 0; i < g->spare && i < g->stored; i++)
        tree->spares[i] = 0;
    for (int64_t number = g->seen - rows; number < g->seen; number++) {
        uint16_t place = (uint16_t)(number % p->window);
        ef_put(tree, 0, place);
        vote(g, tree->votes, g->labels[place], ef_times_of(g, tree, (uint32_t)(number % LONG)));
    }
    if (rows) {
        g->stack[0] = 0;
        ef_live_grow(g, tree, 1);
    }
}

/* The tree that does not vote replaces the worst one if it is clearly better. Then it is grown anew, and
 * if it has not won for some contests. */
static void contest(ef_grove *g)
{
    const ef_plan *p = &g->plan;
    int32_t last = p->n_trees, worst = 0, lead = 0, rows = 0;
    for (int32_t t = 0; t < last; t++) {
        const ef_sapling *tree = g->order[t];
        if (t == 0 || tree->better - tree->worse > lead) {
            worst = t;
            lead = tree->better - tree->worse;
            rows = tree->better + tree->worse;
        }
    }
    if (lead > 0 && lead * lead > CLEARLY * rows) {
        ef_sapling *other = g->order[worst];
        g->order[worst] = g->order[last];
        g->order[last] = other;
    } else if (g->seen % (AGAIN * EVERY)) {
        return;
    }
    for (int32_t t = 0; t <= last; t++)
        g->trees[t].better = g->trees[t].worse = 0;
    g->half ^= 1;
    reset(g, g->order[last], (g->seen < p->window ? g->seen : p->window) >> g->half);
}

/* Add a row to a leaf: to its queue and its race, or start a race if the leaf is wrong. */
static inline void learn_in(ef_grove *g, ef_sapling *tree, int leaf, uint16_t place, unsigned times,
                            int wrong)
{
    ef_put(tree, leaf, place);
    int slot = tree->tips[leaf].slot;
    if (slot != NONE) {
        if (!times)
            return;
        if (tree->tips[leaf].sure == g->labels[place] + 1) { /* there is nothing to gain now */
            ef_release(g, tree, leaf);
            return;
        }
        ef_live *race = g->slots + slot;
        ef_live_insert(g, slot, place, times);
        if (++race->seen >= race->due) {
            race->due = race->seen + (race->seen >> 2) + STEP;
            ef_live_grow(g, tree, ef_live_look(g, tree, leaf, 0));
        }
    } else if (tree->tips[leaf].wait) {
        tree->tips[leaf].wait--;
    } else if (wrong) {
        g->stack[0] = (uint16_t)leaf;
        ef_live_grow(g, tree, 1);
    }
}

uint32_t ef_largest(const uint32_t *values, size_t n)
{
    uint32_t best = 0, most = values[0];
    for (uint32_t k = 1; k < n; k++) { /* no branch */
        best = values[k] > most ? k : best;
        most = values[k] > most ? values[k] : most;
    }
    return best;
}

/* The guess about a class that votes stand for: see edgeforest.h. */
static uint32_t word_of(const uint32_t *sums, size_t n)
{
    uint32_t best = ef_largest(sums, n), total = 0;
    for (size_t k = 0; k < n; k++)
        total += sums[k];
    return 4 * best + (3 * sums[best] >= 2 * total) + (5 * sums[best] >= 4 * total);
}

/* The votes of the memory that votes; the one that was best lately votes next. */
static uint32_t *judge(ef_grove *g, uint32_t label)
{
    const ef_plan *p = &g->plan;
    size_t width = p->width ? (size_t)p->width : 1;
    int32_t before = g->memory, best = before;
    for (int32_t k = 0; k < g->memories; k++) {
        const uint32_t *out = g->out + (size_t)k * width;
        uint32_t said = p->width ? ef_largest(out, width) : out[0];
        int64_t wrong = (int64_t)said - (p->width ? (int64_t)label : (int64_t)label * p->n_trees);
        wrong = p->width ? wrong != 0 : wrong < 0 ? -wrong : wrong;
        g->losses[k] += wrong * (1 << 2 * LATELY) - (g->losses[k] >> LATELY);
        best = g->losses[k] < g->losses[best] ? k : best;
    }
    g->memory = best;
    return g->out + (size_t)before * width;
}

/* Whether all votes of a leaf are for a class, and its slowest memory is full. Then one more row of this
 * class is not added: it would change nothing. */
static int is_sure(const ef_question *q, const uint32_t *votes, int32_t width)
{
    uint32_t others = 0;
    if (votes[(q->memories - 1) * width + (int32_t)q->label] < q->fades[q->memories - 1])
        return 0;
    for (int32_t k = 0; k < q->memories; k++, votes += width)
        for (int32_t j = 0; j < width; j++)
            others |= j == (int32_t)q->label ? 0 : votes[j];
    return !others;
}

/* Let the leaf that a row reached in a tree answer into `out`, and add the row to its votes; returns how
 * wrong the memory is that votes. */
EF_INLINE uint32_t ask_tree(ef_grove *g, const ef_question *q, int32_t width, int32_t pairs, int32_t t,
                            uint32_t *out)
{
    ef_sapling *tree = g->order[t];
    ef_tip *tip = tree->tips + g->leaves[t];
    uint32_t *votes = ef_votes_at(g, tree, 0, g->leaves[t]), times = g->drawn[t], miss;
    if (width) {
        if (times && tip->sure != q->label + 1)
            tip->sure = (uint16_t)(is_sure(q, votes, width) ? q->label + 1 : 0);
        if (tip->sure == q->label + 1) {
            for (int32_t k = 0; k < q->memories; k++)
                out[pairs ? 4 * (int32_t)q->label + k : k * width + (int32_t)q->label] += q->scale;
            return 0;
        }
        miss = pairs ? ask_pairs(q, votes, times, out) : ask_leaf(q, votes, width, times, out);
    } else {
        miss = ask_sums(q, votes, times, out);
    }
    if (tip->missed < MOST)
        tip->missed += width ? miss : miss >> 8;
    return miss;
}

/* Let all trees answer and vote. The last one is the challenger, whose answers are not counted. */
EF_INLINE void ask_trees(ef_grove *g, const ef_question *q, int32_t width, int32_t pairs, uint32_t *out)
{
    int32_t last = g->plan.n_trees, places = pairs ? 8 : q->memories * (width ? width : 1);
    uint32_t against = g->misses[last] = ask_tree(g, q, width, pairs, last, out);
    memset(out, 0, (size_t)places * sizeof *out);
    for (int32_t t = 0; t < last; t++) {
        uint32_t miss = g->misses[t] = ask_tree(g, q, width, pairs, t, out);
        ef_sapling *tree = g->order[t];
        tree->better += against < miss;
        tree->worse += against > miss;
    }
}

/* The same with the sums on the stack, where the compiler knows that nobody else changes them. */
EF_INLINE void ask_few(ef_grove *g, const ef_question *q, int32_t width, int32_t pairs)
{
    uint32_t out[EF_MEMORIES * 5] = {0};
    ask_trees(g, q, width, pairs, out);
    for (int32_t i = 0; i < q->memories * (width ? width : 1); i++)
        g->out[i] = out[pairs ? 4 * (i & 1) + (i >> 1) : i];
}

static void ask_all(ef_grove *g, uint32_t label)
{
    ef_question q = {g->plan.scale, label, {0}, g->memory, g->memories};
    for (int32_t k = 0; k < q.memories; k++)
        q.fades[k] = g->fades[k] * UNIT;
#ifdef __GNUC__
    if (g->plan.width == 2 && q.memories == 3) {
        ask_few(g, &q, 2, 1);
        return;
    }
#endif
    switch (g->plan.width) { /* few classes are so frequent that they are compiled apart */
    case 0: ask_few(g, &q, 0, 0); break;
    case 2: ask_few(g, &q, 2, 0); break;
    case 3: ask_few(g, &q, 3, 0); break;
    case 4: ask_few(g, &q, 4, 0); break;
    case 5: ask_few(g, &q, 5, 0); break;
    default: ask_trees(g, &q, g->plan.width, 0, g->out);
    }
}

/* Find the leaves that a row reaches, in some trees at a time: so the processor need not wait for the
 * memory of one node before it asks for that of another. */
EF_INLINE void find_leaves(ef_grove *g, const float *row, int plain)
{
    enum { SOME = 9 }; /* twice that are 16 trees and the challenger */
    int32_t last = g->plan.n_trees;
    for (int32_t first = 0; first <= last; first += SOME) {
        const ef_fork *walks[SOME];
        unsigned down;
        for (int i = 0; i < SOME; i++) /* what lies beyond the last tree is the last tree */
            walks[i] = g->order[first + i < last ? first + i : last]->nodes;
        do {
            down = 0;
            for (int i = 0; i < SOME; i++) {
                down |= walks[i]->down;
                walks[i] = plain ? ef_next_plain(walks[i], row) : ef_next(walks[i], row);
            }
        } while (down);
        for (int i = 0; i < SOME && first + i <= last; i++)
            g->leaves[first + i] = (uint16_t)(walks[i] - g->order[first + i]->nodes);
    }
}

static void find_all(ef_grove *g, const float *row)
{
    if (!g->some_kinds && ef_is_whole(row, g->plan.m))
        find_leaves(g, row, 1);
    else
        find_leaves(g, row, 0);
}

/* Ask for the memory of a leaf early: its votes, and what its race begins with. */
static inline void fetch(const ef_grove *g, const ef_sapling *tree, int leaf)
{
    EF_PREFETCH(ef_votes_at(g, tree, 0, leaf));
    int slot = tree->tips[leaf].slot;
    if (slot == NONE)
        return;
    EF_PREFETCH(g->slots + slot);
    EF_PREFETCH(g->raced + (size_t)slot * (size_t)g->plan.max_features);
}

/* Predict a row, then learn it. */
static uint32_t learn(ef_grove *g, const float *row, uint16_t label)
{
    const ef_plan *p = &g->plan;
    uint32_t number = (uint32_t)(g->seen % LONG);
    find_all(g, row);
    for (int32_t t = 0; t <= p->n_trees; t++) {
        g->drawn[t] = (uint8_t)ef_times_of(g, g->order[t], number);
        fetch(g, g->order[t], g->leaves[t]);
    }
    ask_all(g, label);
    uint16_t place = keep(g, row, label);
    g->seen++;
    for (int32_t t = 0; t <= p->n_trees; t++)
        learn_in(g, g->order[t], g->leaves[t], place, g->drawn[t], g->misses[t] != 0);
    if (g->seen % EVERY == 0)
        contest(g);
    uint32_t *votes = judge(g, label);
    if (p->inputs) {
        ef_linear_learn(g, row, label);
        ef_linear_judge(g, votes, label);
    }
    return p->width ? word_of(votes, (size_t)p->width) : votes[0];
}

/* ---- What the caller uses ---- */

static const uint32_t SLOWER[EF_MEMORIES] = FADES;

/* How often rows count in a tree: by chance, or as often as in a sample drawn with repeats. */
static void draw_times(ef_grove *g)
{
    for (int i = 0; i < LONG; i++) {
        double u = (double)ef_rng_next(&g->rng) / 1073741824.0;
        int k = 0;
        if (g->plan.rows > 0) {
            k = u < g->plan.rows;
        } else {
            double part = exp(-1.0), upto = part;
            while (u >= upto && k < 7) {
                part /= ++k;
                upto += part;
            }
        }
        g->times[i] = (uint8_t)k;
    }
}

void ef_grove_begin(ef_grove *g, const ef_plan *plan, const uint16_t *kinds, void *memory)
{
    ef_carve c = {memory, 0};
    memset(g, 0, sizeof *g);
    g->plan = *plan;
    lay_out(g, plan, &c);
    memcpy(g->kinds, kinds, (size_t)plan->m * sizeof *kinds);
    for (int32_t f = 0; f < plan->m; f++)
        g->some_kinds |= kinds[f] != 0;
    memset(g->counts, 0, (size_t)plan->width * sizeof *g->counts);
    if (plan->inputs) {
        size_t m = (size_t)plan->m, weights = (size_t)plan->inputs * (size_t)plan->width;
        for (size_t i = 0; i < EF_RATES * weights; i++)
            g->weights[i] = 0.0;
        for (size_t f = 0; f < m; f++)
            g->means[f] = g->squares[f] = g->counted[f] = 0;
    }
    g->memories = ef_memories_of(plan);
    g->memory = g->memories / 2;
    for (int k = 0; k < g->memories; k++)
        g->fades[k] = plan->fade ? plan->fade : SLOWER[k];
    g->quota = plan->window >> 4 ? plan->window >> 4 : 1;
    g->spare = ef_spare_of(plan);
    g->room = ef_few_room(plan);
    g->task.criterion = plan->criterion;
    g->tree.task = &g->task;
    g->tree.width = (int32_t)ef_cells_of(plan);
    if (plan->criterion == EF_ENTROPY)
        for (int i = 0; i < EF_LOGS; i++)
            g->tree.logs[i] = i ? ef_ln((ef_real)i) : 0.0;
    ef_rng_begin(&g->rng, plan->seed, plan->stream);
    draw_times(g);
    for (int32_t i = 0; i < plan->races; i++)
        g->free_slots[i] = (uint16_t)(plan->races - 1 - i);
    g->n_free = plan->races;
    for (int32_t t = 0; t <= plan->n_trees; t++) {
        ef_sapling *tree = g->trees + t;
        g->order[t] = tree;
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
        EF_NEED(known(&g->plan, labels[i]), "labels must be classes or levels of the plan");
    for (size_t f = 0; f < m; f++)
        for (size_t i = 0; g->kinds[f] && i < n; i++) {
            float x = rows[i * m + f];
            EF_NEED(x != x || (x >= 0.0f && x <= (float)g->kinds[f] && x == (float)(int)x),
                    "a category must be a whole number from 0 to its feature's categories, or NaN");
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

uint32_t ef_grove_vote(const ef_grove *g, const float *row, uint32_t *out)
{
    size_t width = g->plan.width ? (size_t)g->plan.width : 1;
    memset(out, 0, width * sizeof *out);
    for (int32_t t = 0; t < g->plan.n_trees; t++) {
        const ef_sapling *tree = g->order[t];
        ask(g, ef_votes_at(g, tree, g->memory, ef_find(tree, row)), out);
    }
    if (g->plan.inputs)
        ef_linear_vote(g, row, out);
    return ef_largest(out, width);
}

static const char *tree_wrong(const ef_plan *p, int32_t n, const uint16_t *feature,
                              const uint16_t *left, const uint16_t *right, const uint32_t *votes)
{
    size_t width = ef_votes_of(p);
    EF_NEED(1 <= n && n <= p->nodes, "a tree must have from 1 to the plan's number of nodes");
    for (int32_t i = 0; i < n; i++) {
        uint64_t total = 0;
        for (size_t k = 0; k < (p->width ? width : 1); k++)
            total += votes[(size_t)i * width + k];
        EF_NEED(total < 0x80000000u, "the votes of a node must be fewer than 2147483648");
        if (feature[i] == EF_LEAF)
            continue;
        EF_NEED((feature[i] & EF_FEATURE) < p->m, "a node tests a feature that does not exist");
        EF_NEED(i < left[i] && left[i] + 1 < n && right[i] == left[i] + 1,
                "children must be nodes after their parent, the right one after the left one");
    }
    return NULL;
}

const char *ef_grove_plant(ef_grove *g, int32_t t, int32_t n, const uint16_t *feature,
                           const float *threshold, const uint16_t *left, const uint16_t *right,
                           const uint32_t *votes, const ef_real *gains)
{
    ef_sapling *tree = g->order[t];
    size_t width = ef_votes_of(&g->plan);
    const char *wrong = tree_wrong(&g->plan, n, feature, left, right, votes);
    EF_NEED(!wrong, wrong);
    clear(g, tree);
    for (int32_t i = 0; i < n; i++)
        ef_add_leaf(tree, 0);
    for (int32_t i = 0; i < n; i++) {
        ef_fork *node = tree->nodes + i;
        if (feature[i] == EF_LEAF)
            continue;
        g->some_kinds |= feature[i] & EF_EQUAL;
        node->feature = feature[i];
        node->threshold = threshold[i];
        node->down = (uint16_t)(left[i] - i);
    }
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < g->memories; k++)
            memcpy(ef_votes_at(g, tree, k, i), votes + (size_t)i * width, width * sizeof *votes);
    memcpy(tree->importance, gains, (size_t)g->plan.m * sizeof *gains);
    for (int32_t i = 0; i < n; i++)
        if (feature[i] != EF_LEAF) {
            int depth = tree->tips[i].depth < 255 ? tree->tips[i].depth + 1 : 255;
            tree->tips[left[i]].depth = tree->tips[right[i]].depth = (uint8_t)depth;
        }
    return NULL;
}

size_t ef_grove_recall(ef_grove *g, const float *rows, const uint16_t *labels, size_t n)
{
    size_t m = (size_t)g->plan.m, good = 0;
    while (good < n && known(&g->plan, labels[good]))
        good++;
    size_t first = good > (size_t)g->plan.window ? good - (size_t)g->plan.window : 0;
    for (size_t i = 0; i < good; i++) { /* first the window, which shows what is rare */
        size_t at = i + first < good ? i + first : i + first - good;
        uint16_t label = labels[at];
        if (!known(&g->plan, label))
            return 0; /* another thread changed it */
        if (at < first) {
            if (g->spare && ef_is_rare(g, label))
                store(g, rows + at * m, label, (int64_t)at);
            continue;
        }
        uint16_t place = keep(g, rows + at * m, label);
        g->seen++;
        for (int32_t t = 0; t <= g->plan.n_trees; t++)
            ef_put(g->trees + t, ef_find(g->trees + t, rows + at * m), place);
        if (g->plan.inputs)
            ef_linear_learn(g, rows + at * m, label);
    }
    return good;
}

void ef_grove_renew(ef_grove *g, int32_t t)
{
    reset(g, g->order[t], g->seen < g->plan.window ? g->seen : g->plan.window);
}

int32_t ef_grove_size(const ef_grove *g, int32_t t) { return g->order[t]->n_nodes; }

void ef_grove_tree(const ef_grove *g, int32_t t, uint16_t *feature, float *threshold,
                   uint16_t *left, uint16_t *right, uint32_t *votes, ef_real *gains)
{
    const ef_sapling *tree = g->order[t];
    size_t n = (size_t)tree->n_nodes, width = ef_votes_of(&g->plan);
    for (size_t i = 0; i < n; i++) {
        int leaf = ef_is_leaf(tree->nodes + i);
        feature[i] = leaf ? EF_LEAF : tree->nodes[i].feature;
        threshold[i] = leaf ? 0.0f : tree->nodes[i].threshold;
        left[i] = (uint16_t)(i + tree->nodes[i].down);
        right[i] = (uint16_t)(left[i] + 1);
        memcpy(votes + i * width, ef_votes_at(g, tree, g->memory, (int)i), width * sizeof *votes);
    }
    memcpy(gains, tree->importance, (size_t)g->plan.m * sizeof *gains);
}
