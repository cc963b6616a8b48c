/* Predicting: the summed votes of a forest for rows of numbers. */
#include "internal.h"

static inline uint32_t descend(const ef_forest *forest, uint32_t node, const ef_column *row,
                               ptrdiff_t column_step)
{
    ef_column c = *row;
    for (;;) {
        uint16_t f = forest->feature[node];
        if (f == EF_LEAF)
            return node;
        c.values = row->values + (f & EF_FEATURE) * column_step;
        float x = ef_value(&c, 0);
        float t = forest->threshold[node];
        int left;
        if (x != x || ((f & EF_EQUAL) && x == 0.0f))
            left = f & EF_MISSING_LEFT;
        else
            left = (f & EF_EQUAL) ? x == t : x <= t;
        node = left ? node + 1 : forest->right16 ? forest->right16[node] : forest->right32[node];
    }
}

void ef_predict(const ef_forest *forest, const ef_rows *rows, size_t first, size_t n,
                uint32_t *out)
{
    size_t width = (size_t)forest->width;
    memset(out, 0, n * width * sizeof *out);
    ef_column row;
    memset(&row, 0, sizeof row);
    row.type = rows->type;
    for (int64_t tree = 0; tree < forest->n_trees; tree++) {
        uint32_t root = forest->roots[tree];
        for (size_t i = 0; i < n; i++) {
            row.values = rows->values + (ptrdiff_t)(first + i) * rows->row_step;
            uint32_t leaf = descend(forest, root, &row, rows->column_step);
            uint32_t place = forest->right16 ? forest->right16[leaf] : forest->right32[leaf];
            const uint16_t *votes = forest->votes + (size_t)place * width;
            for (size_t k = 0; k < width; k++)
                out[i * width + k] += votes[k];
        }
    }
}
