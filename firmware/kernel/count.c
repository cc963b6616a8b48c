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

int64_t ef_look_up(ef_tree *tree, const ef_row *rows, int n, ef_piece *piece)
{
    const ef_task *task = tree->task;
    int64_t squares = 0;
    for (int i = 0; i < n; i++) {
        uint32_t label = ef_label(task, rows[i]), times = ef_times(tree, rows[i]);
        piece->labels[i] = tree->map ? tree->map[label] : label;
        piece->times[i] = times;
        squares += (int64_t)times * times;
    }
    if (EF_IS_MSE(task))
        for (int i = 0; i < n; i++) {
            int64_t y = piece->labels[i], power = piece->times[i];
            if (tree->width == 5) /* 11 bits and a sign */
                y = (y >> 5) - 1024;
            for (int k = 0; k < tree->width; k++, power *= y)
                piece->moments[k * EF_PIECE + i] = power;
        }
    return squares;
}

void ef_count(ef_tree *tree, const ef_contender *c, const ef_row *rows, int n,
              const ef_piece *piece, int first)
{
    if (EF_IS_MSE(tree->task))
        count_moments(tree, c, rows, n, piece->moments, first);
    else
        count_classes(tree, c, rows, n, piece->labels, piece->times, first);
}

/* Count some rows into every racing histogram, row by row: the codes of a row lie side by side, and
 * no histogram is written to twice in succession. `to_come` rows may be fetched ahead, these
 * included. */
static void count_rows(ef_tree *tree, int n_racing, const ef_row *rows, int n, int64_t to_come,
                       const ef_piece *piece)
{
    struct {
        const unsigned char *values;
        const uint8_t *table;
        int32_t *cells;
    } lanes[EF_PIECE];
    uint32_t width = (uint32_t)tree->width;
    ptrdiff_t step = tree->task->columns[0].step;
    for (int from = 0; from < n_racing; from += EF_PIECE) {
        int many = n_racing - from < EF_PIECE ? n_racing - from : EF_PIECE;
        for (int j = 0; j < many; j++) {
            const ef_contender *c = tree->contenders + tree->racing[from + j];
            lanes[j].values = c->column->values;
            lanes[j].table = c->table;
            lanes[j].cells = (int32_t *)tree->cells + c->h;
        }
        /* Places of a row at least a cache line apart, to be fetched ahead. */
        const unsigned char *ahead[EF_PIECE];
        int n_ahead = 0;
        for (int j = 0; j < many; j++)
            if (n_ahead == 0 || lanes[j].values - ahead[n_ahead - 1] >= EF_LINE)
                ahead[n_ahead++] = lanes[j].values;
        int i = 0;
        for (; i + 3 < n; i += 4) { /* four rows at once: a lane is looked up once for them */
            for (int ahead_by = 4; ahead_by < 8 && i + ahead_by < to_come; ahead_by++)
                for (int k = 0; k < n_ahead; k++)
                    EF_PREFETCH(ahead[k] + (ptrdiff_t)rows[i + ahead_by] * step);
            ptrdiff_t a = (ptrdiff_t)rows[i] * step, b = (ptrdiff_t)rows[i + 1] * step;
            ptrdiff_t c = (ptrdiff_t)rows[i + 2] * step, d = (ptrdiff_t)rows[i + 3] * step;
            const uint32_t *label = piece->labels + i, *times = piece->times + i;
            for (int j = 0; j < many; j++) {
                const unsigned char *values = lanes[j].values;
                const uint8_t *table = lanes[j].table;
                int32_t *cells = lanes[j].cells;
                cells[table[values[a]] * width + label[0]] += (int32_t)times[0];
                cells[table[values[b]] * width + label[1]] += (int32_t)times[1];
                cells[table[values[c]] * width + label[2]] += (int32_t)times[2];
                cells[table[values[d]] * width + label[3]] += (int32_t)times[3];
            }
        }
        for (; i < n; i++) {
            ptrdiff_t row = (ptrdiff_t)rows[i] * step;
            for (int j = 0; j < many; j++)
                lanes[j].cells[lanes[j].table[lanes[j].values[row]] * width + piece->labels[i]] +=
                    (int32_t)piece->times[i];
        }
    }
}

int64_t ef_insert(ef_tree *tree, int n_racing, int64_t start, int64_t *granted, int first)
{
    int64_t squares = 0, end = start + *granted;
    ef_piece piece;
    int by_rows = EF_IS_ROW_MAJOR(tree->task) && !EF_IS_MSE(tree->task);
    for (int64_t at = start; at < end; at += EF_PIECE) {
        const ef_row *rows = tree->rows + at;
        int n = end - at < EF_PIECE ? (int)(end - at) : EF_PIECE;
        squares += ef_look_up(tree, rows, n, &piece);
        if (by_rows)
            count_rows(tree, n_racing, rows, n, end - at, &piece);
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
