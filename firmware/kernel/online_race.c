/* The races of the online learner: a leaf counts the rows that reach it, and splits when it is sure.
 *
 * A race has one of a fixed number of slots; leaves that are wrong most often get them. Grove of
 * edgeforest/grove.py has the same functions.
 */
#include "online.h"

#define LOOK 64 /* rows that show whether a feature varies */
#define BATCH 16 /* features that are counted together */

/* A slot for the race of a leaf; NONE if every race that was tried matters more. */
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

/* Which of a leaf's rows the bounds of bins are taken from: the same for all features. */
typedef struct {
    int look, take;
    uint32_t part;        /* rows of which one becomes a bound */
    uint16_t looked[LOOK]; /* places of the rows that show whether a feature varies */
    uint16_t starts[255];  /* of the parts, in `places` */
} ef_choice;

/* Find the smallest and largest number and the count of missing ones of n features, side by side. */
static void find_spans(const ef_grove *g, const ef_choice *rows, size_t f, size_t n, const ef_span *to)
{
    float *low = to->low + f, *high = to->high + f;
    int32_t *missing = to->missing + f;
    for (size_t i = 0; i < n; i++) {
        low[i] = EF_HUGE;
        high[i] = -EF_HUGE;
        missing[i] = 0;
    }
    for (int k = 0; k < rows->look; k++) {
        const float *row = g->values + rows->looked[k] * (size_t)g->plan.m + f;
        for (size_t i = 0; i < n; i++) {
            float x = row[i];
            low[i] = x < low[i] ? x : low[i];
            high[i] = x > high[i] ? x : high[i];
            missing[i] += x != x;
        }
    }
}

static void choose_rows(const ef_grove *g, int n, ef_choice *rows)
{
    int take = g->plan.n_bins - 1 < n / 2 ? g->plan.n_bins - 1 : n / 2;
    rows->take = take < 1 ? 1 : take;
    rows->part = (uint32_t)(n / rows->take);
    rows->look = n < LOOK ? n : LOOK;
    for (int k = 0; k < rows->look; k++)
        rows->looked[k] = g->places[k * n / rows->look];
    for (int k = 0; k < rows->take; k++)
        rows->starts[k] = (uint16_t)(k * n / rows->take);
}

/* Draw bounds below `high` from the leaf's rows, in order; returns how many. */
static int draw_cuts(ef_grove *g, const ef_choice *rows, const float *values, float high, float *cuts)
{
    uint32_t drawn[255];
    size_t m = (size_t)g->plan.m;
    int found = 0;
    ef_rng_fill(&g->rng, drawn, (size_t)rows->take, rows->part);
    for (int k = 0; k < rows->take; k++) {
        float x = values[g->places[rows->starts[k] + drawn[k]] * m];
        if (!(x < high))
            continue;
        int j = found;
        while (j > 0 && cuts[j - 1] > x)
            j--;
        if (j > 0 && cuts[j - 1] == x)
            continue;
        for (int i = found++; i > j; i--)
            cuts[i] = cuts[i - 1];
        cuts[j] = x;
    }
    return found;
}

/* Find the upper bounds of a feature's bins; returns the number of bins, 0 if it does not vary. */
static int cuts_of(ef_grove *g, const ef_choice *rows, unsigned f, float *cuts)
{
    const ef_plan *p = &g->plan;
    const float *values = g->values + f;
    int32_t missing = g->spans.missing[f];
    float low = g->spans.low[f], high = g->spans.high[f];
    if (!(low < high) && !(0 < missing && missing < rows->look))
        return 0;
    if (g->kinds[f])
        return g->kinds[f];
    int found = 0;
    if (p->extra && low < high) {
        double unit = (double)ef_rng_next(&g->rng) / 1073741824.0;
        float x = (float)((double)low + ((double)high - (double)low) * unit);
        cuts[found++] = x < high ? x : low;
    } else if (low < high) {
        found = draw_cuts(g, rows, values, high, cuts);
        if (!found)
            cuts[found++] = low;
    }
    for (size_t k = (size_t)found; k < ef_padded_cuts(p); k++)
        cuts[k] = EF_HUGE;
    return found + 1;
}

/* The bin of a number: one more than the bounds below it. */
static inline unsigned bin_of(const float *cuts, size_t padded, float x)
{
    int b = 1;
    for (size_t k = 0; k < padded; k++) /* no branch */
        b += cuts[k] < x;
    return (unsigned)b;
}

void ef_live_insert(ef_grove *g, int slot, unsigned place, uint32_t times)
{
    const ef_plan *p = &g->plan;
    ef_live *race = g->slots + slot;
    size_t padded = ef_padded_cuts(p), width = ef_cells_of(p), bytes = ef_cell_bytes(p);
    size_t stride = (size_t)p->stride * width, at[BATCH];
    uint32_t label = g->labels[place];
    const float *row = g->values + (size_t)place * (size_t)p->m;
    size_t c = (size_t)slot * (size_t)p->max_features, end = c + (size_t)race->n;
    while (c < end) { /* first where to count some features, then the counts: memory is slow */
        int n = 0;
        for (; n < BATCH && c < end; c++) {
            unsigned f = g->raced[c], b = 0, bins = g->bins[c];
            float x = row[f];
            if (g->kinds[f]) {
                b = x >= 1.0f && x <= (float)bins ? (unsigned)x : 0; /* NaN is neither */
            } else if (x == x) {
                b = bin_of(g->cuts + c * padded, padded, x);
                b = b < bins ? b : bins; /* an infinite number is above the padding, too */
            }
            at[n] = c * stride + b * width;
            EF_PREFETCH((unsigned char *)g->cells + at[n++] * bytes);
        }
        if (p->width) {
            int32_t *cells = (int32_t *)g->cells + label;
            for (int i = 0; i < n; i++)
                cells[at[i]] += (int32_t)times;
        } else {
            int64_t one = times, sum = one * label, square = sum * label;
            for (int i = 0; i < n; i++) {
                int64_t *cells = (int64_t *)g->cells + at[i];
                cells[0] += one;
                cells[1] += sum;
                cells[2] += square;
            }
        }
    }
    race->squares += times * times;
}

static int is_full(const ef_grove *g, const ef_sapling *tree)
{
    return tree->n_nodes + 2 > g->plan.nodes;
}

/* Draw the features of a race and the bounds of their bins from the n rows in `places`; returns how
 * many features vary. */
static int32_t draw_features(ef_grove *g, uint16_t *features, int n)
{
    const ef_plan *p = &g->plan;
    int32_t racing = 0;
    int together = p->m <= 4 * p->max_features; /* most of them will be drawn, or cost little */
    ef_choice rows;
    choose_rows(g, n, &rows);
    if (together)
        find_spans(g, &rows, 0, (size_t)p->m, &g->spans);
    for (int32_t i = 0; racing < p->max_features && i < p->patch; i++) {
        int32_t j = i + (int32_t)ef_rng_below(&g->rng, (uint32_t)(p->patch - i));
        uint16_t f = features[j];
        features[j] = features[i];
        features[i] = f;
        if (!together)
            find_spans(g, &rows, f, 1, &g->spans);
        int bins = cuts_of(g, &rows, f, g->new_cuts + (size_t)racing * ef_padded_cuts(p));
        if (bins) {
            g->new_raced[racing] = f;
            g->new_bins[racing++] = (uint8_t)bins;
        }
    }
    return racing;
}

/* Give a slot to the race of a leaf, with the features that were drawn. */
static void open_race(ef_grove *g, ef_sapling *tree, int node, int slot, int32_t racing)
{
    const ef_plan *p = &g->plan;
    ef_live *race = g->slots + slot;
    size_t some = (size_t)p->max_features, first = (size_t)slot * some, padded = ef_padded_cuts(p);
    size_t cells = some * (size_t)p->stride * ef_cells_of(p);
    memcpy(g->raced + first, g->new_raced, (size_t)racing * sizeof *g->raced);
    memcpy(g->bins + first, g->new_bins, (size_t)racing);
    memcpy(g->cuts + first * padded, g->new_cuts, (size_t)racing * padded * sizeof *g->cuts);
    memset((unsigned char *)g->cells + (size_t)slot * cells * ef_cell_bytes(p), 0,
           cells / some * (size_t)racing * ef_cell_bytes(p));
    race->tree = (uint16_t)(tree - g->trees);
    race->node = (uint16_t)node;
    race->n = racing;
    race->seen = race->squares = 0;
    tree->slot[node] = (uint16_t)slot;
}

/* Count rows in `places` into a race that was just opened: some of the window, all of rare classes. */
static void count_kept(ef_grove *g, const ef_sapling *tree, int slot, int n)
{
    ef_live *race = g->slots + slot;
    /* The numbers of the rows at place 0, in this turn of the window and in the one before. */
    int64_t zero = g->seen - 1 - (g->seen - 1) % g->plan.window;
    uint32_t last = (uint32_t)(g->seen - 1 - zero), now = (uint32_t)(zero % LONG);
    uint32_t before = zero ? (uint32_t)((zero - g->plan.window) % LONG) : 0;
    int spares = g->spares, in_window = n - spares, taken = 0;
    int count = in_window < FIRST ? in_window : FIRST; /* evenly from all of them, oldest first */
    int next = 0;                                      /* the next of these */
    for (int i = 0; i < n; i++) {
        unsigned place = g->places[i];
        uint32_t number;
        if (i < spares) {
            number = g->numbers[place - (unsigned)g->plan.window];
        } else {
            if (i - spares == next)
                next = ++taken < count ? taken * in_window / count : n;
            else if (!ef_is_rare(g, g->labels[place]))
                continue;
            number = ((place <= last ? now : before) + place) % LONG;
        }
        unsigned times = ef_times_of(g, tree, number);
        if (times) {
            ef_live_insert(g, slot, place, times);
            race->seen++;
        }
    }
    race->due = race->seen + (race->seen >> 2) + STEP;
}

/* Start the race of a leaf with its kept rows; returns whether there is one now. */
static int begin(ef_grove *g, ef_sapling *tree, int node)
{
    if (tree->nodes[node].depth >= g->plan.max_depth || is_full(g, tree)) {
        tree->wait[node] = NONE;
        return 0;
    }
    int n = 0, mixed = 0;
    for (int32_t i = 0; i < g->spare; i++) {
        uint16_t place = (uint16_t)(g->plan.window + i);
        if (tree->leaf[place] == node && ef_is_rare(g, g->labels[place])) {
            g->places[n++] = place;
            mixed |= g->labels[place] != g->labels[g->places[0]];
        }
    }
    g->spares = n;
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
    int32_t racing = draw_features(g, tree->features, n);
    int slot = racing ? slot_for(g, tree, node) : NONE; /* only if a feature varies */
    if (slot == NONE) {
        tree->wait[node] = START;
        return 0;
    }
    open_race(g, tree, node, slot, racing);
    count_kept(g, tree, slot, n);
    return 1;
}

/* Give a new leaf its first votes: the rows that were counted for it, and a few of its parent's. */
static void endow(const ef_grove *g, ef_sapling *tree, int node, int child, const int64_t *cells)
{
    size_t width = ef_votes_of(&g->plan), counted = g->plan.width ? width : 1;
    int64_t size = 0;
    for (size_t k = 0; k < counted; k++)
        size += cells[k];
    for (int j = 0; j < g->memories; j++) {
        const uint32_t *before = ef_votes_at(g, tree, j, node);
        uint32_t *votes = ef_votes_at(g, tree, j, child);
        int64_t fade = g->fades[j], room = (size < fade ? size : fade) * UNIT, all = 0;
        for (size_t k = 0; k < counted; k++)
            all += before[k];
        for (size_t k = 0; k < width; k++) {
            votes[k] = (uint32_t)(cells[k] * room / size);
            if (all)
                votes[k] += (uint32_t)((int64_t)PRIOR * UNIT * before[k] / all);
        }
    }
}

/* Split a leaf by the winning contender; its children go onto the stack. */
static void split(ef_grove *g, ef_sapling *tree, int node, const ef_contender *lead, int n_stack)
{
    const ef_plan *p = &g->plan;
    int slot = tree->slot[node];
    size_t width = ef_cells_of(p);
    int64_t *total = g->tree.sums, *left = total + width, *right = left + width, size, on_left;
    int missing_left = ef_weigh_sides(&g->tree, lead, &size, &on_left);
    missing_left = missing_left < 0 ? 2 * on_left > size : missing_left;
    const float *cuts = g->cuts + ((size_t)slot * (size_t)p->max_features +
                                   (size_t)g->lead) * ef_padded_cuts(p);
    float threshold = lead->equal ? (float)lead->bin : lead->bin < lead->bins ? cuts[lead->bin - 1]
                                                                              : EF_HUGE;
    tree->importance[lead->feature] += lead->gain * (ef_real)size;
    ef_release(g, tree, node);
    int depth = tree->nodes[node].depth + 1;
    int a = ef_add_leaf(tree, depth), b = ef_add_leaf(tree, depth);
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
        ef_put(tree, ef_goes_left(x, f, threshold) ? a : b, place);
    }
    for (int32_t i = 0; i < g->spare; i++) {
        size_t place = (size_t)p->window + (size_t)i;
        float x = g->values[place * (size_t)p->m + lead->feature];
        if (tree->leaf[place] == node)
            tree->leaf[place] = (uint16_t)(ef_goes_left(x, f, threshold) ? a : b);
    }
    g->stack[n_stack] = (uint16_t)b;
    g->stack[n_stack + 1] = (uint16_t)a;
}

int ef_live_look(ef_grove *g, ef_sapling *tree, int node, int n_stack)
{
    const ef_plan *p = &g->plan;
    int slot = tree->slot[node];
    ef_live *race = g->slots + slot;
    ef_contender *c = g->contender, lead;
    size_t first = (size_t)slot * (size_t)p->max_features;
    size_t of_one = (size_t)p->stride * ef_cells_of(p);
    ef_real *gains = g->gains, *variances = g->gains + p->max_features;
    ef_real impurity = 0.0, rest = 0.0;
    int64_t size = 0;
    int found = -1, full = is_full(g, tree); /* other leaves may have split meanwhile */
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
            rest = (ef_real)race->squares / (ef_real)(size * size);
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
    int decided = found >= 0 && !(lead.gain <= SURE * ef_root(lead.variance));
    if (decided && size < PATIENCE) {
        ef_real slack = TOLERANCE * lead.gain, least = EF_TOLERANCE_IMPURITY * impurity;
        slack = least > slack ? least : slack;
        for (int32_t i = 0; decided && i < race->n; i++)
            if (i != found && gains[i] > -EF_HUGE)
                decided = !(gains[i] - lead.gain + Z * ef_root(variances[i] + lead.variance) > slack);
    }
    if (decided) {
        g->lead = found;
        split(g, tree, node, &lead, n_stack);
        return 2;
    }
    if (full || race->seen >= MANY)
        ef_release(g, tree, node);
    return 0;
}

void ef_live_grow(ef_grove *g, ef_sapling *tree, int n_stack)
{
    while (n_stack) {
        int node = g->stack[--n_stack];
        if (begin(g, tree, node))
            n_stack += ef_live_look(g, tree, node, n_stack);
    }
}
