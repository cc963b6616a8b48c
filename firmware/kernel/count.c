/* Counting: rows are inserted into histograms, and every insertion is granted before it is made. */
#include "race.h"

static void count_classes(ef_tree *tree, const ef_contender *c, const ef_row *rows, int n,
                          const uint32_t *labels, const uint32_t *times, int first)
{
    const ef_column *column = c->column;
    const uint8_t *table = c->table;
    int32_t *cells = (int32_t *)tree->cells + c->h;
    uint32_t width = (uint32_t)tree->width;
    int i = 0;
    if (first) { /* their codes are known */
        int head = n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS;
        for (; i < head; i++)
            cells[table[c->head[i]] * width + labels[i]] += (int32_t)times[i];
    }
    if (EF_IS_CODES(column)) {
        const unsigned char *values = column->values;
        ptrdiff_t step = column->step;
        for (; i < n; i++) {
            uint32_t bin = table[values[(ptrdiff_t)rows[i] * step]];
            cells[bin * width + labels[i]] += (int32_t)times[i];
        }
        return;
    }
    uint8_t codes[EF_PIECE];
    ef_gather(tree, column, rows + i, n - i, codes + i);
    for (; i < n; i++)
        cells[table[codes[i]] * width + labels[i]] += (int32_t)times[i];
}

static void count_moments(ef_tree *tree, const ef_contender *c, const ef_row *rows, int n,
                          const int64_t *moments, int first)
{
    int32_t width = tree->width;
    int64_t *cells = (int64_t *)tree->cells + c->h;
    uint8_t codes[EF_PIECE];
    int head = !first ? 0 : n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS;
    memcpy(codes, c->head, (size_t)head);
    ef_gather(tree, c->column, rows + head, n - head, codes + head);
    if (tree->whole) { /* no estimate is needed, so the squares are not used */
        for (int i = 0; i < n; i++) {
            int64_t *cell = cells + (size_t)c->table[codes[i]] * 3;
            cell[0] += moments[i];
            cell[1] += moments[EF_PIECE + i];
        }
        return;
    }
    if (width == 3) {
        for (int i = 0; i < n; i++) {
            int64_t *cell = cells + (size_t)c->table[codes[i]] * 3;
            cell[0] += moments[i];
            cell[1] += moments[EF_PIECE + i];
            cell[2] += moments[2 * EF_PIECE + i];
        }
        return;
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < width; k++)
            cells[c->table[codes[i]] * width + k] += moments[k * EF_PIECE + i];
}

int64_t ef_look_up(ef_tree *tree, const ef_row *rows, const uint32_t *notes, int n, ef_piece *piece)
{
    const ef_task *task = tree->task;
    int64_t squares = 0;
    if (EF_NARROW(tree) && EF_IS_MSE(task)) {
        for (int i = 0; i < n; i++)
            piece->moments[i] = ((int64_t)(notes[i] >> 16) << EF_ROWS_AT) |
                                (int64_t)(notes[i] >> 16) * (notes[i] & 65535u);
        return 0; /* nobody asks for them where all rows are counted */
    }
    for (int i = 0; i < n; i++) {
        uint32_t label = EF_IS_SMALL ? ef_label(task, rows[i]) : notes[i] & 65535u;
        uint32_t times = EF_IS_SMALL ? ef_times(tree, rows[i]) : notes[i] >> 16;
        piece->labels[i] = tree->map ? tree->map[label] : label;
        piece->times[i] = times;
        squares += (int64_t)times * times;
    }
    if (!EF_IS_SMALL && EF_IS_MSE(task) && tree->width == 3) /* the same, faster */
        for (int i = 0; i < n; i++) {
            int64_t y = piece->labels[i], times = piece->times[i];
            piece->moments[i] = times;
            piece->moments[EF_PIECE + i] = times * y;
            piece->moments[(EF_MOMENTS > 2 ? 2 : 0) * EF_PIECE + i] = times * y * y;
        }
    else if (EF_IS_MSE(task))
        for (int i = 0; i < n; i++) {
            int64_t y = piece->labels[i], power = piece->times[i];
            if (tree->width == 5) /* 11 bits and a sign */
                y = (y >> 5) - 1024;
            for (int k = 0; k < tree->width; k++, power *= y)
                piece->moments[k * EF_PIECE + i] = power;
        }
    return squares;
}

/* Count rows of which the codes are known into narrow cells. */
static void count_narrow(ef_tree *tree, const ef_contender *c, const uint8_t *codes, int n,
                         const ef_piece *piece)
{
    const uint8_t *table = c->table;
    uint32_t stride = EF_NARROW(tree);
    if (EF_IS_MSE(tree->task)) {
        int64_t *cells = (int64_t *)tree->cells + c->h;
        for (int i = 0; i < n; i++)
            cells[table[codes[i]]] += piece->moments[i];
        return;
    }
    uint16_t *cells = (uint16_t *)tree->cells + c->h;
    for (int i = 0; i < n; i++) {
        uint16_t *cell = cells + table[codes[i]] * stride + piece->labels[i];
        *cell = (uint16_t)(*cell + piece->times[i]);
    }
}

void ef_count(ef_tree *tree, const ef_contender *c, const ef_row *rows, int n,
              const ef_piece *piece, int first)
{
    if (EF_NARROW(tree) && first && n <= EF_GROUP_ROWS) {
        count_narrow(tree, c, c->head, n, piece);
    } else if (EF_NARROW(tree)) {
        uint8_t codes[EF_PIECE];
        int head = !first ? 0 : n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS;
        memcpy(codes, c->head, (size_t)head);
        ef_gather(tree, c->column, rows + head, n - head, codes + head);
        count_narrow(tree, c, codes, n, piece);
    } else if (EF_IS_MSE(tree->task))
        count_moments(tree, c, rows, n, piece->moments, first);
    else
        count_classes(tree, c, rows, n, piece->labels, piece->times, first);
}

/* One feature of a race, while rows are counted. */
typedef struct {
    const unsigned char *values;
    const uint8_t *table;
    void *cells;
} ef_lane;

/* What a cell is. It is known where rows_in is called, so each kind has a loop of its own. */
enum { WIDE, NARROW_8, NARROW_16, NARROW_32, PAIRS };

EF_INLINE void count_one(int kind, const ef_lane *lane, ptrdiff_t at, const ef_piece *piece, int i,
                         uint32_t width)
{
    uint32_t bin = lane->table[lane->values[at]], label = piece->labels[i], times = piece->times[i];
    if (kind == PAIRS) {
        ((int64_t *)lane->cells)[bin] += piece->moments[i];
    } else if (kind == WIDE) {
        ((int32_t *)lane->cells)[bin * width + label] += (int32_t)times;
    } else {
        uint16_t *cell = (uint16_t *)lane->cells + (bin << (2 + kind)) + label;
        *cell = (uint16_t)(*cell + times);
    }
}

/* What count_rows goes through: rows from .. to of a piece, whose values lie `at` these places of each
 * lane. Lines of the cache at `ahead` are fetched, of rows a few later. */
typedef struct {
    ef_lane lanes[EF_PIECE];
    const unsigned char *ahead[EF_PIECE];
    ptrdiff_t at[EF_PIECE + 8];
    int many, n_ahead, from, to, to_come;
} ef_lanes;

EF_INLINE void rows_in(int kind, const ef_lanes *l, const ef_piece *piece, uint32_t width)
{
    const ptrdiff_t *at = l->at;
    int i = l->from, n = l->to, many = l->many, n_ahead = l->n_ahead, to_come = l->to_come;
    for (; i + 3 < n; i += 4) { /* four rows at once: a lane is looked up once for them */
        for (int next = i + 4; next < i + 8 && next < to_come; next++)
            for (int k = 0; k < n_ahead; k++)
                EF_PREFETCH(l->ahead[k] + at[next]);
        for (int j = 0; j < many; j++) {
            ef_lane lane = l->lanes[j];
            count_one(kind, &lane, at[i], piece, i, width);
            count_one(kind, &lane, at[i + 1], piece, i + 1, width);
            count_one(kind, &lane, at[i + 2], piece, i + 2, width);
            count_one(kind, &lane, at[i + 3], piece, i + 3, width);
        }
    }
    for (; i < n; i++)
        for (int j = 0; j < many; j++)
            count_one(kind, l->lanes + j, at[i], piece, i, width);
}

static void count_lanes(int kind, const ef_lanes *l, const ef_piece *piece, uint32_t width)
{
#define COUNT(KIND)                                                                                \
    case KIND: rows_in(KIND, l, piece, width); break
    switch (kind) {
        COUNT(WIDE);
        COUNT(NARROW_8);
        COUNT(NARROW_16);
        COUNT(NARROW_32);
        COUNT(PAIRS);
    default: break;
    }
#undef COUNT
}

/* Count some rows into every racing histogram, row by row: the codes of a row lie side by side, and
 * no histogram is written to twice in succession. `to_come` rows may be fetched ahead, these
 * included. With `first`, they are the node's first rows, whose codes are known. */
static void count_rows(ef_tree *tree, int n_racing, const ef_row *rows, int n, int64_t to_come,
                       const ef_piece *piece, int first)
{
    ef_lanes l;
    ptrdiff_t step = tree->task->columns[0].step;
    uint32_t width = (uint32_t)tree->width, narrow = EF_NARROW(tree);
    int heads = !first ? 0 : n < EF_GROUP_ROWS ? n : EF_GROUP_ROWS, kind = WIDE;
    size_t cell = sizeof(int32_t);
    if (EF_IS_MSE(tree->task)) {
        kind = PAIRS;
        cell = sizeof(int64_t);
    } else if (narrow) {
        kind = narrow == 8 ? NARROW_8 : narrow == 16 ? NARROW_16 : NARROW_32;
        cell = sizeof(uint16_t);
    }
    l.to_come = to_come < n + 8 ? (int)to_come : n + 8;
    for (int start = 0; start < n_racing; start += EF_PIECE) {
        l.many = n_racing - start < EF_PIECE ? n_racing - start : EF_PIECE;
        l.n_ahead = 0;
        for (int j = 0; j < l.many; j++) {
            const ef_contender *c = tree->contenders + tree->racing[start + j];
            l.lanes[j] = (ef_lane){c->head, c->table, (unsigned char *)tree->cells + c->h * cell};
        }
        for (int i = 0; i < heads; i++)
            l.at[i] = i;
        l.from = 0;
        l.to = heads;
        count_lanes(kind, &l, piece, width);
        for (int j = 0; j < l.many; j++) {
            const unsigned char *values = tree->contenders[tree->racing[start + j]].column->values;
            l.lanes[j].values = values;
            if (l.n_ahead == 0 || values - l.ahead[l.n_ahead - 1] >= EF_LINE)
                l.ahead[l.n_ahead++] = values;
        }
        for (int i = heads; i < l.to_come; i++)
            l.at[i] = (ptrdiff_t)rows[i] * step;
        l.from = heads;
        l.to = n;
        count_lanes(kind, &l, piece, width);
    }
}

int64_t ef_insert(ef_tree *tree, int n_racing, int64_t start, int64_t *granted, int first)
{
    int64_t squares = 0, end = start + *granted;
    ef_piece piece;
    int by_rows = EF_IS_ROW_MAJOR(tree->task) && (!EF_IS_MSE(tree->task) || EF_NARROW(tree));
    for (int64_t at = start; at < end; at += EF_PIECE) {
        const ef_row *rows = tree->rows + at;
        int n = end - at < EF_PIECE ? (int)(end - at) : EF_PIECE;
        squares += ef_look_up(tree, rows, EF_NOTES(tree, at), n, &piece);
        if (by_rows)
            count_rows(tree, n_racing, rows, n, end - at, &piece, first && at == start);
        else
            for (int j = 0; j < n_racing; j++)
                ef_count(tree, tree->contenders + tree->racing[j], rows, n, &piece,
                         first && at == start);
        if (ef_ask(tree, (int64_t)n * n_racing, 0) != EF_GO) {
            int64_t rest = end - at - n;
            *granted -= rest;
            ef_give_back(tree, rest * n_racing);
            break;
        }
    }
    return squares;
}

int64_t ef_take(ef_tree *tree, int64_t rows, int64_t per_row)
{
    if (ef_ask(tree, 0, 1) != EF_GO)
        return 0;
    if (tree->left >= 0 && rows > tree->left / per_row)
        rows = tree->left / per_row;
    if (rows > 0) {
        tree->insertions += rows * per_row;
        if (tree->left >= 0)
            tree->left -= rows * per_row;
        tree->rounds++;
    }
    return rows;
}
