/* The races of the online learner: a leaf counts the rows that reach it, and splits when it is sure.
 *
 * A race has one of a fixed number of slots; leaves that are wrong most often get them. Grove of
 * edgeforest/grove.py has the same functions.
 */
#include "online.h"

#define LOOK 64 /* rows that show whether a feature varies */

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
        if (asleep->tips[race->node].missed < tree->tips[node].missed) {
            asleep->tips[race->node].slot = NONE;
            asleep->tips[race->node].wait = START;
            return slot;
        }
        asleep->tips[race->node].missed >>= 1;
    }
    return NONE;
}

/* Which of a leaf's rows the bounds of bins are taken from: the same for all features. */
typedef struct {
    int look, take;
    uint16_t looked[LOOK]; /* places of the rows that show whether a feature varies */
    uint16_t drawn[255];   /* and of those whose numbers become bounds */
} ef_choice;

/* Find the smallest and largest number and the count of missing ones of a feature. */
static void span_of_one(const ef_grove *g, const ef_choice *rows, size_t f, const ef_span *to)
{
    float low = EF_HUGE, high = -EF_HUGE;
    int32_t missing = 0;
    for (int k = 0; k < rows->look; k++) {
        float x = g->values[rows->looked[k] * (size_t)g->plan.m + f];
        low = x < low ? x : low;
        high = x > high ? x : high;
        missing += x != x;
    }
    to->low[f] = low;
    to->high[f] = high;
    to->missing[f] = missing;
}

/* The same of four features, side by side. */
static inline void span_of_four(const ef_grove *g, const ef_choice *rows, size_t f, const ef_span *to)
{
#ifdef __GNUC__
    ef_four low = {EF_HUGE, EF_HUGE, EF_HUGE, EF_HUGE}, high = -low;
    ef_mask missing = {0, 0, 0, 0};
    for (int k = 0; k < rows->look; k++) {
        ef_four x = ef_load(g->values + rows->looked[k] * (size_t)g->plan.m + f);
        low = ef_where(x < low, x, low);
        high = ef_where(x > high, x, high);
        missing -= x != x;
    }
    memcpy(to->low + f, &low, sizeof low);
    memcpy(to->high + f, &high, sizeof high);
    memcpy(to->missing + f, &missing, sizeof missing);
#else
    for (size_t l = 0; l < 4; l++)
        span_of_one(g, rows, f + l, to);
#endif
}

/* The same of n features, from f on. */
static void find_spans(const ef_grove *g, const ef_choice *rows, size_t f, size_t n, const ef_span *to)
{
    size_t at = 0;
    for (; at + 4 <= n; at += 4)
        span_of_four(g, rows, f + at, to);
    if (at < n && n >= 4)
        span_of_four(g, rows, f + n - 4, to);
    for (; n < 4 && at < n; at++)
        span_of_one(g, rows, f + at, to);
}

/* Choose from the n rows in `places`; those of bounds by chance, one of each part. */
static void choose_rows(ef_grove *g, int n, ef_choice *rows)
{
    uint32_t drawn[255];
    int take = g->plan.n_bins - 1 < n / 2 ? g->plan.n_bins - 1 : n / 2;
    rows->take = take < 1 ? 1 : take;
    rows->look = n < LOOK ? n : LOOK;
    for (int k = 0; k < rows->look; k++)
        rows->looked[k] = g->places[n <= LOOK ? k : k * n / LOOK];
    if (g->plan.extra)
        return;
    ef_rng_fill(&g->rng, drawn, (size_t)rows->take, (uint32_t)(n / rows->take));
    for (int k = 0; k < rows->take; k++)
        rows->drawn[k] = g->places[k * n / rows->take + (int)drawn[k]];
}

/* Take bounds below `high` from the rows that were drawn, for a lane of `new_cuts`. */
static void take_cuts(ef_grove *g, const ef_choice *rows, unsigned f, size_t lane)
{
    size_t m = (size_t)g->plan.m, lanes = ef_lanes_of(&g->plan);
    const float *values = g->values + f;
    float high = g->spans.high[f], *cuts = g->new_cuts + lane;
    for (int k = 0; k < rows->take; k++) {
        float x = values[rows->drawn[k] * m];
        cuts[(size_t)k * lanes] = x < high ? x + 0.0f : (float)INFINITY; /* there is no -0 */
    }
}

/* Start the bounds of a feature's bins in a lane of `new_cuts`; returns whether the feature varies. */
static int begin_cuts(ef_grove *g, const ef_choice *rows, unsigned f, size_t lane)
{
    size_t lanes = ef_lanes_of(&g->plan);
    int32_t missing = g->spans.missing[f];
    float low = g->spans.low[f], high = g->spans.high[f];
    if (!(low < high) && !(0 < missing && missing < rows->look))
        return 0;
    if (low < high && !g->kinds[f] && !g->plan.extra) {
        take_cuts(g, rows, f, lane);
        return 1;
    }
    for (int k = 0; k < rows->take; k++)
        g->new_cuts[(size_t)k * lanes + lane] = (float)INFINITY;
    if (low < high && !g->kinds[f]) {
        double unit = (double)ef_rng_next(&g->rng) / 1073741824.0;
        float x = (float)((double)low + ((double)high - (double)low) * unit);
        g->new_cuts[lane] = x < high ? x : low;
    }
    return 1;
}

/* Put the smaller of two bounds first, in each lane. */
static inline void order_two(float *a, float *b, size_t lanes)
{
    for (size_t i = 0; i < lanes; i += 4) {
        float low[4], high[4];
        for (size_t l = 0; l < 4; l++) { /* no branch */
            low[l] = b[i + l] < a[i + l] ? b[i + l] : a[i + l];
            high[l] = a[i + l] < b[i + l] ? b[i + l] : a[i + l];
        }
        memcpy(a + i, low, sizeof low);
        memcpy(b + i, high, sizeof high);
    }
}

/* Sort the bounds of all lanes together, by Batcher's merge exchange: it compares the same places
 * whatever is there. */
static void sort_cuts(float *cuts, int n, size_t used, size_t lanes)
{
    int top = 1;
    while (2 * top < n)
        top *= 2;
    for (int p = top; p > 0 && n > 1; p /= 2)
        for (int q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (int i = 0; i < n - d; i++)
                if ((i & p) == r)
                    order_two(cuts + (size_t)i * lanes, cuts + (size_t)(i + d) * lanes, used);
            if (q == p)
                break;
        }
}

/* Remove bounds that are there twice from a sorted lane; returns how many are left. */
static int finish_cuts(float *cuts, int n, size_t lanes)
{
    int found = 0;
    for (int k = 0; k < n; k++) {
        float x = cuts[(size_t)k * lanes], after = (float)INFINITY;
        if (k + 1 < n)
            after = cuts[(size_t)(k + 1) * lanes];
        cuts[(size_t)found * lanes] = x;
        found += x < after;
    }
    for (int k = found; k < n; k++)
        cuts[(size_t)k * lanes] = (float)INFINITY;
    return found;
}

/* Finish four sorted lanes; `found` is how many bounds each has. */
static void finish_four(float *cuts, int n, size_t lanes, int32_t *found)
{
#ifdef __GNUC__
    const float huge = (float)INFINITY;
    ef_four x = ef_load(cuts);
    ef_mask count = -(x < huge), twice = {0, 0, 0, 0};
    for (int k = 1; k < n; k++) {
        ef_four before = x;
        x = ef_load(cuts + (size_t)k * lanes);
        count -= x < huge;
        twice |= (x == before) & (x < huge);
    }
    memcpy(found, &count, sizeof count);
    if (!(twice[0] | twice[1] | twice[2] | twice[3]))
        return;
#endif
    for (size_t l = 0; l < 4; l++)
        found[l] = finish_cuts(cuts + l, n, lanes);
}

#ifdef __GNUC__
/* Find the bins of one to three times four features: one more than the bounds below a number, 0 if it is
 * missing. The second four begin at `b`, the last at `c`. */
static inline void bins_of(const float *cuts, size_t step, int n, const float *x, size_t b, size_t c,
                           uint8_t *bins)
{
    ef_four u = ef_load(x), v = ef_load(x + b), w = ef_load(x + c);
    ef_mask i = -(u == u), j = -(v == v), k = -(w == w);
    for (int t = 0; t < n; t++, cuts += step) {
        ef_four none = {0, 0, 0, 0}, d = ef_load(cuts);
        i -= d < u; /* what is true is -1 */
        j -= (b ? ef_load(cuts + b) : none) < v;
        k -= (c ? ef_load(cuts + c) : none) < w;
    }
    ef_store(i, bins);
    if (b)
        ef_store(j, bins + b);
    if (c)
        ef_store(k, bins + c);
}
#else
/* Find the bin of one number. */
static inline uint8_t bin_of(const float *cuts, size_t step, int n, float x)
{
    int b = x == x;
    for (int k = 0; k < n; k++)
        b += cuts[(size_t)k * step] < x;
    return (uint8_t)b;
}
#endif

void ef_find_bins(const ef_grove *g, int slot, const float *x, uint8_t *bins)
{
    const ef_live *race = g->slots + slot;
    size_t step = (size_t)g->plan.max_features, n = race->n, at = 0, first = (size_t)slot * step;
    const float *cuts = g->cuts + (size_t)slot * ef_cuts_of(&g->plan);
#ifdef __GNUC__
    uint8_t few[4];
    for (; n - at > 12; at += 12)
        bins_of(cuts + at, step, race->cuts, x + at, 4, 8, bins + at);
    if (n - at > 8)
        bins_of(cuts + at, step, race->cuts, x + at, 4, n - at - 4, bins + at);
    else if (n - at > 4)
        bins_of(cuts + at, step, race->cuts, x + at, n - at - 4, 0, bins + at);
    else if (n >= 4)
        bins_of(cuts + n - 4, step, race->cuts, x + n - 4, 0, 0, bins + n - 4);
    else /* other memory of the grove lies behind both, so that four may be read */
        bins_of(cuts, step, race->cuts, x, 0, 0, few);
    if (n < 4)
        memcpy(bins, few, n);
#else
    for (; at < n; at++)
        bins[at] = bin_of(cuts + at, step, race->cuts, x[at]);
#endif
    for (at = 0; g->some_kinds && at < n; at++)
        if (g->kinds[g->raced[first + at]])
            bins[at] = x[at] >= 1.0f && x[at] <= (float)g->bins[first + at] ? (uint8_t)x[at] : 0;
}

void ef_clear_cells(ef_grove *g, int slot)
{
    const ef_plan *p = &g->plan;
    size_t of_bin = ef_cells_of(p) * ef_cell_bytes(p), cells = (size_t)p->stride * of_bin;
    size_t first = (size_t)slot * (size_t)p->max_features;
    for (size_t i = first; i < first + g->slots[slot].n; i++)
        memset((unsigned char *)g->cells + i * cells, 0, ((size_t)g->bins[i] + 1) * of_bin);
}

void ef_count_bins(ef_grove *g, int slot, const uint8_t *bins, uint32_t label, uint32_t times)
{
    const ef_plan *p = &g->plan;
    const ef_live *race = g->slots + slot;
    size_t width = ef_cells_of(p), stride = (size_t)p->stride * width;
    size_t first = (size_t)slot * (size_t)p->max_features * stride;
    if (p->width) {
        int32_t *cells = (int32_t *)g->cells + first + label;
        for (size_t i = 0; i < race->n; i++, cells += stride)
            cells[bins[i] * width] += (int32_t)times;
        return;
    }
    int64_t *cells = (int64_t *)g->cells + first;
    for (size_t i = 0; i < race->n; i++, cells += stride)
        ef_add_target(cells + 3 * bins[i], label, times);
}

/* Count or list a row, given as the numbers of the features of a race. */
static void count_row(ef_grove *g, int slot, const float *x, uint32_t label, uint32_t times)
{
    if (g->slots[slot].listed != NONE) {
        if (ef_few_add(g, slot, x, label, times))
            return;
        ef_few_unlist(g, slot);
    }
    ef_find_bins(g, slot, x, g->lane_bins);
    ef_count_bins(g, slot, g->lane_bins, label, times);
}

/* Read the numbers of a race's features from a row of the window. */
static inline void read_lanes(const ef_grove *g, int slot, unsigned place, float *to)
{
    const uint16_t *raced = g->raced + (size_t)slot * (size_t)g->plan.max_features;
    const float *row = g->values + (size_t)place * (size_t)g->plan.m;
    for (size_t i = 0; i < g->slots[slot].n; i++)
        to[i] = row[raced[i]];
}

/* Count the rows that wait. */
static void count_waiting(ef_grove *g, int slot)
{
    ef_live *race = g->slots + slot;
    size_t some = (size_t)g->plan.max_features;
    const float *x = g->waiting + (size_t)slot * WAITING * some;
    for (size_t i = 0; i < race->waiting; i++)
        count_row(g, slot, x + i * some, race->labels[i], race->times[i]);
    race->waiting = 0;
}

void ef_live_insert(ef_grove *g, int slot, unsigned place, uint32_t times)
{
    ef_live *race = g->slots + slot;
    size_t at = (size_t)slot * WAITING + race->waiting;
    read_lanes(g, slot, place, g->waiting + at * (size_t)g->plan.max_features);
    race->labels[race->waiting] = g->labels[place];
    race->times[race->waiting++] = (uint8_t)times;
    race->draws += times;
    race->squares += times * times;
    if (race->waiting == WAITING)
        count_waiting(g, slot);
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
    size_t racing = 0, lanes = ef_lanes_of(p);
    int together = p->m <= 4 * p->max_features; /* most of them will be drawn, or cost little */
    int32_t counts[4];
    ef_choice rows;
    choose_rows(g, n, &rows);
    if (together)
        find_spans(g, &rows, 0, (size_t)p->m, &g->spans);
    for (int32_t i = 0; racing < (size_t)p->max_features && i < p->patch; i++) {
        int32_t j = i + (int32_t)ef_rng_below(&g->rng, (uint32_t)(p->patch - i));
        uint16_t f = features[j];
        features[j] = features[i];
        features[i] = f;
        if (!together)
            find_spans(g, &rows, f, 1, &g->spans);
        if (begin_cuts(g, &rows, f, racing))
            g->new_raced[racing++] = f;
    }
    sort_cuts(g->new_cuts, rows.take, (racing + 3) & ~(size_t)3, lanes);
    g->new_n_cuts = 0;
    for (size_t c = 0; c < racing; c++) {
        unsigned f = g->new_raced[c];
        if (c % 4 == 0)
            finish_four(g->new_cuts + c, rows.take, lanes, counts);
        int found = counts[c % 4];
        if (!found && !g->kinds[f] && g->spans.low[f] < g->spans.high[f])
            g->new_cuts[(size_t)found++ * lanes + c] = g->spans.low[f];
        g->new_bins[c] = (uint8_t)(g->kinds[f] ? g->kinds[f] : found + 1);
        g->new_n_cuts = found > g->new_n_cuts ? found : g->new_n_cuts;
    }
    return (int32_t)racing;
}

/* Give a slot to the race of a leaf, with the features that were drawn. */
static void open_race(ef_grove *g, ef_sapling *tree, int node, int slot, int32_t racing)
{
    const ef_plan *p = &g->plan;
    ef_live *race = g->slots + slot;
    size_t some = (size_t)p->max_features, first = (size_t)slot * some;
    float *cuts = g->cuts + (size_t)slot * ef_cuts_of(p);
    int categories = 0;
    memcpy(g->raced + first, g->new_raced, (size_t)racing * sizeof *g->raced);
    memcpy(g->bins + first, g->new_bins, (size_t)racing);
    for (size_t k = 0; k < (size_t)g->new_n_cuts; k++)
        memcpy(cuts + k * some, g->new_cuts + k * ef_lanes_of(p), (size_t)racing * sizeof *cuts);
    for (int32_t i = 0; g->some_kinds && i < racing; i++)
        categories |= g->kinds[g->new_raced[i]] != 0;
    race->tree = (uint16_t)(tree - g->trees);
    race->node = (uint16_t)node;
    race->n = (uint16_t)racing;
    race->cuts = (uint16_t)g->new_n_cuts;
    race->waiting = 0;
    race->seen = race->draws = race->squares = 0;
    race->listed = g->room && !categories ? 0 : NONE;
    if (race->listed == NONE)
        ef_clear_cells(g, slot);
    tree->tips[node].slot = (uint16_t)slot;
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
                next = ++taken == count ? n : count == in_window ? taken : taken * in_window / count;
            else if (!ef_is_rare(g, g->labels[place]))
                continue;
            number = (place <= last ? now : before) + place;
            number = number < LONG ? number : number % LONG; /* divisions take long */
        }
        unsigned times = ef_times_of(g, tree, number);
        if (times) {
            read_lanes(g, slot, place, g->lane_values);
            count_row(g, slot, g->lane_values, g->labels[place], times);
            race->draws += times;
            race->squares += times * times;
            race->seen++;
        }
    }
    race->due = race->seen + (race->seen >> 2) + STEP;
}

/* Start the race of a leaf with its kept rows; returns whether there is one now. */
static int begin(ef_grove *g, ef_sapling *tree, int node)
{
    if (tree->tips[node].depth >= g->plan.max_depth || is_full(g, tree)) {
        tree->tips[node].wait = NONE;
        return 0;
    }
    int n = 0, mixed = 0;
    for (int32_t i = 0; i < g->spare; i++) {
        uint16_t place = (uint16_t)(g->plan.window + i);
        if (tree->spares[i] == node && ef_is_rare(g, g->labels[place])) {
            g->places[n++] = place;
            mixed |= g->labels[place] != g->labels[g->places[0]];
        }
    }
    g->spares = n;
    for (uint16_t place = tree->tips[node].head; place != NONE; place = tree->kept[place].next) {
        g->places[n++] = place;
        mixed |= g->labels[place] != g->labels[g->places[0]];
    }
    if (2 * n < START) {
        tree->tips[node].wait = (uint16_t)(START - n);
        return 0;
    }
    if (!mixed)
        return 0;
    int32_t racing = draw_features(g, tree->features, n);
    int slot = racing ? slot_for(g, tree, node) : NONE; /* only if a feature varies */
    if (slot == NONE) {
        tree->tips[node].wait = START;
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
    int slot = tree->tips[node].slot;
    size_t width = ef_cells_of(p);
    int64_t *total = g->tree.sums, *left = total + width, *right = left + width, size, on_left;
    int missing_left = ef_weigh_sides(&g->tree, lead, &size, &on_left);
    missing_left = missing_left < 0 ? 2 * on_left > size : missing_left;
    const float *cuts = g->cuts + (size_t)slot * ef_cuts_of(p) + g->lead;
    float threshold = lead->equal              ? (float)lead->bin
                      : lead->bin < lead->bins ? cuts[(size_t)(lead->bin - 1) * (size_t)p->max_features]
                                               : EF_HUGE;
    tree->importance[lead->feature] += lead->gain * (ef_real)size;
    ef_release(g, tree, node);
    int depth = tree->tips[node].depth + 1;
    int a = ef_add_leaf(tree, depth), b = ef_add_leaf(tree, depth);
    tree->nodes[node].down = (uint16_t)(a - node);
    tree->nodes[node].threshold = threshold;
    unsigned f = lead->feature | (lead->equal ? EF_EQUAL : 0u) |
                 (missing_left ? EF_MISSING_LEFT : 0u);
    for (size_t k = 0; k < width; k++)
        right[k] = total[k] - left[k];
    endow(g, tree, node, a, left);
    endow(g, tree, node, b, right);
    tree->nodes[node].feature = (uint16_t)f;
    for (uint16_t place = tree->tips[node].head, after; place != NONE; place = after) {
        after = tree->kept[place].next;
        float x = g->values[(size_t)place * (size_t)p->m + lead->feature];
        ef_put(tree, ef_goes_left(x, f, threshold) ? a : b, place);
    }
    for (int32_t i = 0; i < g->spare; i++) {
        size_t place = (size_t)p->window + (size_t)i;
        float x = g->values[place * (size_t)p->m + lead->feature];
        if (tree->spares[i] == node)
            tree->spares[i] = (uint16_t)(ef_goes_left(x, f, threshold) ? a : b);
    }
    g->stack[n_stack] = (uint16_t)b;
    g->stack[n_stack + 1] = (uint16_t)a;
}

/* Describe a feature in the race of a slot, and its best arm. */
static void describe(const ef_grove *g, int slot, int i, ef_contender *c)
{
    size_t at = (size_t)slot * (size_t)g->plan.max_features + (size_t)i;
    c->feature = g->raced[at];
    c->bins = g->bins[at];
    c->equal = g->kinds[c->feature] > 0;
    c->bin = (uint8_t)g->arms[i];
    c->missing_left = (uint8_t)(g->arms[i] >> 8);
    c->gain = g->gains[i];
    c->h = at * (size_t)g->plan.stride * ef_cells_of(&g->plan);
    if (g->slots[slot].listed != NONE) {
        c->h = 0;
        ef_few_histogram(g, slot, (size_t)i, g->tree.cells);
    }
}

/* Sum up the histograms of a race, and find the best arm of each feature and its gain. */
static void find_arms(ef_grove *g, int slot, int64_t *size, ef_real *impurity, ef_real *rest)
{
    const ef_live *race = g->slots + slot;
    ef_contender *c = g->contender;
    for (int i = 0; i < race->n; i++) {
        g->arms[i] = 0;
        describe(g, slot, i, c);
        if (i == 0) {
            *size = ef_sum_up(&g->tree, c, impurity);
            if (*impurity <= 0)
                return;
            *rest = (ef_real)race->squares / (ef_real)(*size * *size);
        }
        if (!ef_best(&g->tree, c, *size, g->plan.least, *rest))
            continue;
        g->gains[i] = c->gain;
        g->arms[i] = (uint16_t)(c->bin | c->missing_left << 8);
    }
}

/* Whether the race of a slot is decided; sets the leading feature. */
static int is_decided(ef_grove *g, int slot, ef_contender *lead)
{
    const ef_live *race = g->slots + slot;
    ef_real impurity = 0.0, rest = 0.0;
    int64_t size = 0;
    int found = -1;
    if (race->listed == NONE)
        find_arms(g, slot, &size, &impurity, &rest);
    else
        ef_few_best(g, slot, &size, &impurity, &rest);
    if (impurity <= 0)
        return 0;
    for (int i = 0; i < race->n; i++)
        if (g->arms[i] && (found < 0 || g->gains[i] > g->gains[found]))
            found = i;
    if (found < 0)
        return 0;
    g->lead = found;
    describe(g, slot, found, lead);
    lead->variance = ef_variance(&g->tree, lead, rest);
    return lead->gain > SURE * ef_root(lead->variance);
}

int ef_live_look(ef_grove *g, ef_sapling *tree, int node, int n_stack)
{
    int slot = tree->tips[node].slot;
    int full = is_full(g, tree); /* other leaves may have split meanwhile */
    ef_contender lead;
    int64_t one[EF_FEW_CELLS]; /* the histogram of one feature, if the rows are listed */
    if (!full && g->slots[slot].draws < PATIENCE)
        return 0;
    count_waiting(g, slot);
    if (ef_few_many(g, slot))
        ef_few_unlist(g, slot);
    g->tree.cells = g->slots[slot].listed == NONE ? g->cells : one;
    if (!full && is_decided(g, slot, &lead)) {
        split(g, tree, node, &lead, n_stack);
        return 2;
    }
    if (full || g->slots[slot].seen >= MANY)
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
