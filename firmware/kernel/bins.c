/* Bins: which features race at a node, and how their codes are grouped.
 *
 * Features are drawn until enough of them vary at the node. The codes of the node's first rows show
 * where to cut; a table of 256 bytes then gives the bin of any code.
 */
#include "race.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static void sort_spots(ef_real *spots, int n)
{
    for (int i = 1; i < n; i++) {
        ef_real x = spots[i];
        int j = i;
        for (; j > 0 && spots[j - 1] > x; j--)
            spots[j] = spots[j - 1];
        spots[j] = x;
    }
}

/* The first code whose bound is not below x. */
static int code_of(const ef_column *c, ef_real x)
{
    int low = 1, high = c->last;
    while (low < high) {
        int middle = (low + high) >> 1;
        if ((ef_real)c->bounds[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void ef_sort_codes(ef_order *o, const uint8_t *codes, int n)
{
    uint8_t seen[256];
    int distinct = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < n; i++)
        seen[codes[i]] = 255;
#ifdef EF_BOARD /* small, and without 64-bit words */
    for (int code = 0; code < 256; code++)
        if (seen[code])
            o->codes[distinct++] = (uint8_t)code;
#elif defined(__SSE2__) && defined(__GNUC__)
    for (int from = 0; from < 256; from += 64) {
        uint64_t some = 0; /* a bit for each code that occurs */
        for (int k = 0; k < 64; k += 16) {
            __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(seen + from + k));
            some |= (uint64_t)(uint32_t)_mm_movemask_epi8(part) << k;
        }
        for (; some; some &= some - 1)
            o->codes[distinct++] = (uint8_t)(from + __builtin_ctzll(some));
    }
#else
    uint64_t words[32];
    memcpy(words, seen, sizeof words);
    for (int word = 0; word < 32; word++)
        while (words[word]) { /* the next code that occurs: a byte that is not zero */
            int code = ef_first_byte(words[word]);
            words[word] &= ~ef_byte_mask(code);
            o->codes[distinct++] = (uint8_t)(code + 8 * word);
        }
#endif
    o->distinct = distinct;
}

/* These write to `wanted` where to cut, and return how many cuts there are. */

/* At random (extra) or equally spaced (paper), between the smallest code and the largest. */
EF_APART static int spaced_cuts(ef_tree *tree, const ef_column *column, int first, int last,
                                int16_t *wanted)
{
    const ef_task *task = tree->task;
    int bins = task->n_bins;
    ef_real spots[256];
    ef_real low = ef_bound(column, first > 0 ? first - 1 : 0);
    ef_real span = ef_bound(column, last) - low;
    for (int i = 1; i < bins; i++)
        spots[i - 1] = task->extra ? low + span * ((ef_real)ef_rng_next(&tree->rng) / 1073741824)
                                   : low + span * (ef_real)i / (ef_real)bins;
    if (task->extra)
        sort_spots(spots, bins - 1);
    for (int i = 0; i < bins - 1; i++) {
        int code = task->raw ? (int)spots[i] : code_of(column, spots[i]);
        if (!task->raw && code < first)
            code = first;
        if (!task->raw && code >= last)
            code = last - 1;
        wanted[i] = (int16_t)code;
    }
    return bins - 1;
}

int ef_cuts_between(const ef_order *o, int at, int bins, int16_t *wanted)
{
    int many = o->distinct - at, count = 0;
    for (int i = 1; i < bins && i < many; i++) {
        int place = at + (many > bins ? i * many / bins : i);
        wanted[count++] = (int16_t)((o->codes[place - 1] + o->codes[place]) >> 1);
    }
    return count;
}

/* The same for a large node, a quarter of them equally spaced: its first rows may lack its extremes. */
static int cuts_of_large(const ef_task *task, const ef_column *column, const ef_order *o, int at,
                         int bins, int16_t *wanted)
{
    int first = task->raw ? 0 : 1, spaced = bins >> 2, count = 0, next = 1, i = 0;
    int16_t some[256];
    int n = ef_cuts_between(o, at, bins - spaced, some);
    while (i < n || next <= spaced) {
        int cut = first + (column->last - first) * next / (spaced + 1);
        if (next > spaced || (i < n && some[i] < cut))
            cut = some[i++];
        else
            next++;
        wanted[count++] = (int16_t)cut;
    }
    return count;
}

/* Codes from .. to are in this bin. Some codes after them are overwritten: they are filled later. */
static void fill_table(uint8_t *table, int from, int to, int bin)
{
    uint64_t pattern = (uint64_t)bin * 0x0101010101010101u;
    for (; from <= to; from += 8)
        memcpy(table + from, &pattern, sizeof pattern);
}

/* Make the table from the cuts that are wanted, each once and in order. */
static void cut_bins(const ef_task *task, ef_contender *c, const ef_order *o, int all,
                     const int16_t *wanted, int count)
{
    int last = task->extra || EF_IS_PAPER(task) ? o->codes[o->distinct - 1] : 255;
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

void ef_make_bins(ef_tree *tree, ef_contender *c, const ef_order *o, int all, int64_t n)
{
    const ef_task *task = tree->task;
    const ef_column *column = c->column;
    if (column->categories) {
        c->equal = 1;
        c->bins = column->categories;
        for (int i = 0; i <= column->categories; i++)
            c->table[i] = c->cuts[i] = (uint8_t)i;
        memset(c->table + c->bins + 1, 0, (size_t)(255 - c->bins)); /* these do not exist */
        return;
    }
    c->equal = 0;
    int at = !task->raw && o->codes[0] == 0; /* after the missing values */
    int16_t wanted[256];
    int count;
    if (task->extra || EF_IS_PAPER(task))
        count = spaced_cuts(tree, column, o->codes[at], o->codes[o->distinct - 1], wanted);
    else if (n > EF_LARGE)
        count = cuts_of_large(task, column, o, at, ef_bins_for(task, n), wanted);
    else
        count = ef_cuts_between(o, at, ef_bins_for(task, n), wanted);
    cut_bins(task, c, o, all, wanted, count);
}

int ef_bins_for(const ef_task *task, int64_t n)
{
    int64_t bins = n / EF_ROWS_PER_BIN, most = (int64_t)EF_MORE_BINS * task->n_bins;
    bins = bins < most ? bins : most;
    bins = bins > task->n_bins ? bins : task->n_bins;
    return bins < 255 ? (int)bins : 255;
}

int ef_most_bins(const ef_task *task)
{
    if (task->extra || EF_IS_PAPER(task))
        return task->n_bins;
    return ef_bins_for(task, EF_MASK);
}

/* Draw the next feature; returns 0 when none is left. */
static int draw(ef_tree *tree, int32_t *drawn, ef_contender *c)
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
    return 1;
}

int ef_draw_next(ef_tree *tree, const ef_row *rows, int head, int32_t *drawn, ef_contender *c)
{
    if (!draw(tree, drawn, c))
        return 0;
    ef_gather(tree, c->column, rows, head, c->head);
    return 1;
}

/* Look for a code other than `low` in some rows; returns it, or `low`. */
static uint8_t other_code(ef_tree *tree, const ef_column *column, const ef_row *rows, int64_t n,
                          uint8_t low)
{
    uint8_t more[EF_PIECE];
    for (int64_t at = 0; at < n; at += EF_PIECE) {
        int piece = n - at < EF_PIECE ? (int)(n - at) : EF_PIECE;
        uint8_t differ = 0;
        ef_gather(tree, column, rows + at, piece, more);
        for (int k = 0; k < piece; k++)
            differ = (uint8_t)(differ | (more[k] ^ low));
        for (int k = 0; differ; k++)
            if (more[k] != low)
                return more[k];
    }
    return low;
}

/* Make the bins of a feature from the codes of the first rows. If these are all the same, `other` is one
 * that occurs later. Returns whether it varies. */
static int bin_codes(ef_tree *tree, ef_contender *c, int head, int64_t n, uint8_t other)
{
    uint8_t low = c->head[0];
    ef_order order;
    if (other == low) {
        ef_sort_codes(&order, c->head, head);
        if (order.distinct < 2)
            return 0;
    } else {
        order.distinct = 2;
        order.codes[0] = low < other ? low : other;
        order.codes[1] = low < other ? other : low;
    }
    ef_make_bins(tree, c, &order, 0, n); /* all codes: data may change meanwhile */
    return 1;
}

#ifndef EF_BOARD
/* Get the codes of the first rows of several features, row by row: those of a row lie side by side. */
static void gather_heads(ef_contender *some, int many, const ef_row *rows, int head)
{
    ptrdiff_t step = some->column->step;
    const unsigned char *values[EF_PIECE];
    for (int j = 0; j < many; j++)
        values[j] = some[j].column->values;
    int i = 0;
    for (; i + 3 < head; i += 4) {
        ptrdiff_t a = (ptrdiff_t)rows[i] * step, b = (ptrdiff_t)rows[i + 1] * step;
        ptrdiff_t c = (ptrdiff_t)rows[i + 2] * step, d = (ptrdiff_t)rows[i + 3] * step;
        for (int j = 0; j < many; j++) {
            uint8_t *to = some[j].head + i;
            to[0] = values[j][a];
            to[1] = values[j][b];
            to[2] = values[j][c];
            to[3] = values[j][d];
        }
    }
    for (; i < head; i++)
        for (int j = 0; j < many; j++)
            some[j].head[i] = values[j][(ptrdiff_t)rows[i] * step];
}

/* Of the features whose first rows are all the same, look for another code in these rows. */
static void other_codes(ef_tree *tree, const ef_contender *some, int many, const ef_row *rows, int n,
                        int head, uint8_t *others)
{
    enum { PART = 32 };
    const unsigned char *values[EF_PIECE];
    uint8_t which[EF_PIECE], low[EF_PIECE], differ[EF_PIECE];
    ptrdiff_t step = some->column->step;
    int count = 0;
    for (int j = 0; j < many; j++) {
        others[j] = some[j].head[0];
        if (!ef_varies(some[j].head, head)) {
            which[count] = (uint8_t)j;
            low[count] = others[j];
            values[count++] = some[j].column->values;
        }
    }
    for (int from = head; from < n && count; from += PART) {
        int to = n - from < PART ? n : from + PART, kept = 0;
        memset(differ, 0, (size_t)count);
        for (int i = from; i < to; i++) {
            ptrdiff_t at = (ptrdiff_t)rows[i] * step;
            for (int j = 0; j < count; j++)
                differ[j] = (uint8_t)(differ[j] | (values[j][at] ^ low[j]));
        }
        for (int j = 0; j < count; j++) {
            if (differ[j])
                others[which[j]] = other_code(tree, some[which[j]].column, rows + from, to - from, low[j]);
            which[kept] = which[j];
            low[kept] = low[j];
            values[kept] = values[j];
            kept += others[which[j]] == low[j];
        }
        count = kept;
    }
}

/* ef_contenders for codes that lie row by row: as many features as are still wanted are drawn at once. */
static int draw_together(ef_tree *tree, const ef_row *rows, int head, int look, int64_t n)
{
    int32_t drawn = 0, wanted = tree->task->max_features;
    int chosen = 0;
    uint8_t others[EF_PIECE];
    for (;;) {
        ef_contender *some = tree->contenders + chosen;
        int many = 0;
        while (many < EF_PIECE && chosen + many < wanted && draw(tree, &drawn, some + many))
            many++;
        if (many == 0)
            return chosen;
        gather_heads(some, many, rows, head);
        other_codes(tree, some, many, rows, look, head, others);
        for (int j = 0; j < many; j++) {
            ef_contender *c = tree->contenders + chosen;
            if (c != some + j) {
                c->feature = some[j].feature;
                c->column = some[j].column;
                memcpy(c->head, some[j].head, (size_t)head);
            }
            chosen += bin_codes(tree, c, head, n, others[j]);
        }
    }
}
#endif

int ef_contenders(ef_tree *tree, int64_t start, int64_t n)
{
    const ef_row *rows = tree->rows + start;
    int head = n < EF_GROUP_ROWS ? (int)n : EF_GROUP_ROWS, chosen = 0;
    int64_t look = n < EF_LOOK_ROWS ? n : EF_LOOK_ROWS;
    int32_t drawn = 0;
    if (EF_IS_ROW_MAJOR(tree->task) && n > EF_LARGE) { /* smaller nodes are in the cache already */
        ptrdiff_t step = tree->task->columns[0].step;
        ptrdiff_t most = EF_LINE * 8 * (ptrdiff_t)tree->task->max_features;
        for (int i = 0; i < head && step <= most; i++)
            for (ptrdiff_t at = 0; at < step; at += EF_LINE)
                EF_PREFETCH(tree->task->columns[0].values + rows[i] * step + at);
    }
    int together = EF_IS_ROW_MAJOR(tree->task) && !tree->task->extra;
#ifndef EF_BOARD
    if (together)
        chosen = draw_together(tree, rows, head, (int)look, n);
#endif
    while (!together && chosen < tree->task->max_features) {
        ef_contender *c = tree->contenders + chosen;
        if (!ef_draw_next(tree, rows, head, &drawn, c))
            break;
        uint8_t low = c->head[0], other = low;
        if (!ef_varies(c->head, head))
            other = other_code(tree, c->column, rows + head, look - head, low);
        chosen += bin_codes(tree, c, head, n, other);
    }
    /* In the order of their features. The list is sorted, not the contenders: they are large. */
    uint32_t *racing = tree->racing;
    for (int i = 0; i < chosen; i++) {
        int j = i;
        for (; j > 0 && tree->contenders[racing[j - 1]].feature > tree->contenders[i].feature; j--)
            racing[j] = racing[j - 1];
        racing[j] = (uint32_t)i;
    }
    size_t bins = 0;
    for (int i = 0; i < chosen; i++) {
        tree->contenders[i].h = bins * ef_stride(tree);
        bins += (size_t)tree->contenders[i].bins + 1;
    }
    ef_zero_cells(tree, 0, bins);
    return chosen;
}
