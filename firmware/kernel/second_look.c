/* A second look: in a large node, every code near the winning threshold is tried. second_look.py. */
#include "race.h"

/* Count those of the node's first `seen` rows whose code is above low, up to high, into bins of one code
 * each. Returns how many they are, as a negative number if time has run out before the end. */
static int64_t count_within(ef_tree *tree, const ef_contender *c, int64_t start, int64_t seen,
                            int low, int high)
{
    int64_t made = 0;
    ef_piece piece;
    ef_contender within = {.column = c->column, .h = c->h};
    for (int code = low + 1; code <= high; code++)
        within.table[code] = (uint8_t)(code - low + 1);
    for (int64_t at = start; at < start + seen; at += EF_PIECE) {
        ef_row rows[EF_PIECE];
        uint32_t notes[EF_IS_SMALL ? 1 : EF_PIECE];
        uint8_t codes[EF_PIECE];
        int n = start + seen - at < EF_PIECE ? (int)(start + seen - at) : EF_PIECE, kept = 0;
        if (at > start && ef_ask(tree, n, 0) != EF_GO)
            return -made;
        ef_gather(tree, c->column, tree->rows + at, n, codes);
        for (int i = 0; i < n; i++) {
            rows[kept] = tree->rows[at + i];
            if (!EF_IS_SMALL)
                notes[kept] = tree->notes[at + i];
            kept += codes[i] > low && codes[i] <= high;
        }
        ef_look_up(tree, rows, notes, kept, &piece);
        ef_count(tree, &within, rows, kept, &piece, 0);
        made += kept;
    }
    return made;
}

/* Add a vector to a bin. */
static void put(ef_tree *tree, const ef_contender *c, int bin, const int64_t *cells)
{
    size_t at = c->h + (size_t)bin * (size_t)tree->width;
    for (int32_t k = 0; k < tree->width; k++)
        if (EF_IS_MSE(tree->task))
            ((int64_t *)tree->cells)[at + (size_t)k] += cells[k];
        else
            ((int32_t *)tree->cells)[at + (size_t)k] += (int32_t)cells[k];
}

void ef_second_look(ef_tree *tree, ef_contender *lead, int64_t start, int64_t seen, int64_t n,
                    ef_real rest, ef_split *split)
{
    const ef_task *task = tree->task;
    int t = lead->bin;
    if (lead->equal || t == lead->bins)
        return;
    int first = t > EF_REACH ? t - EF_REACH : 0;
    int last = lead->bins - t > EF_REACH ? t + EF_REACH : lead->bins;
    int low = first ? lead->cuts[first] : task->raw ? -1 : 0;
    int high = lead->cuts[last] < low + EF_LOOK_CODES ? lead->cuts[last] : low + EF_LOOK_CODES;
    if (high - low <= last - first)
        return;
    int64_t *total = EF_TOTAL(tree), *below = EF_VECTOR(tree, 4), *missing = EF_VECTOR(tree, 5);
    int64_t *rest_of = EF_VECTOR(tree, 6), size = ef_rows_in(tree, total);
    ef_left_of(tree, lead, last, 0, rest_of);
    ef_left_of(tree, lead, first, 0, below);
    ef_left_of(tree, lead, 0, 1, missing);
    int64_t most = ef_rows_in(tree, rest_of) - ef_rows_in(tree, below);
    if ((tree->left >= 0 && tree->left < most) || ef_take(tree, most, 1) <= 0)
        return;
    lead->h = 0;
    tree->narrow = 0;
    lead->bins = (uint8_t)(high - low + 2);
    ef_zero_cells(tree, 0, (size_t)lead->bins + 1);
    int64_t made = count_within(tree, lead, start, seen, low, high);
    ef_give_back(tree, most - (made < 0 ? -made : made));
    if (made < 0)
        return;
    put(tree, lead, 0, missing);
    put(tree, lead, 1, below);
    memcpy(rest_of, total, (size_t)tree->width * sizeof *total);
    for (int bin = 0; bin < lead->bins; bin++) {
        int64_t *cells = below; /* not needed any more */
        ef_clear(tree, cells);
        ef_add_bin(tree, lead, bin, cells);
        for (int32_t k = 0; k < tree->width; k++)
            rest_of[k] -= cells[k];
        lead->cuts[bin] = (uint8_t)(low + bin - 1);
    }
    lead->cuts[lead->bins] = 255;
    put(tree, lead, lead->bins, rest_of);
    ef_best_arm(tree, lead, total, size, ef_least_rows(task, seen, n));
    if (!lead->found)
        return;
    ef_decide_by_cells(tree, lead, rest, split);
    for (int above = lead->bin + 1; above <= lead->bins; above++) {
        ef_clear(tree, below);
        if (ef_add_bin(tree, lead, above, below)) { /* midway to the next code that was seen */
            split->code = (uint8_t)(low - 1 + ((lead->bin + above) >> 1));
            break;
        }
    }
}
