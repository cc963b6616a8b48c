/* Prediction: the leaf that each row reaches in each tree, and the sums of their votes. */
#include "internal.h"

#define FETCH 8192 /* bytes of a row, at most, that are fetched at once */
#define LANES 8 /* rows that go down a tree together: while one waits for memory, others go on */
#define SOME 64 /* rows whose leaves are found before their votes are added up */

int ef_pack(const uint16_t *feature, const float *threshold, const uint16_t *right16,
            const uint32_t *right32, size_t n, ef_packed *packed, uint32_t *features,
            uint32_t *leaves)
{
    int equal = 0;
    uint32_t highest = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t right = right16 ? right16[i] : right32[i];
        ef_packed *p = packed + i;
        if (feature[i] == EF_LEAF) {
            p->threshold = HUGE_VALF;
            if (right == UINT32_MAX)
                return -1;
            most = right >= most ? right + 1 : most;
            p->right = right;
            p->feature = 0;
            p->left = 0;
            p->flags = EF_MISSING_LEFT >> 8;
        } else {
            if (right <= i || right >= n) /* the left child is the next node, so it exists too */
                return -1;
            p->threshold = threshold[i];
            p->right = right - (uint32_t)i;
            p->feature = feature[i] & EF_FEATURE;
            highest = p->feature > highest ? p->feature : highest;
            p->left = 1;
            p->flags = (uint8_t)((feature[i] & ~EF_FEATURE) >> 8);
            equal |= (feature[i] & EF_EQUAL) != 0;
        }
    }
    if (features)
        *features = highest + 1;
    if (leaves)
        *leaves = most;
    return equal;
}

/* One row, all kinds of nodes. */
static uint32_t descend(const ef_packed *nodes, uint32_t node, const ef_column *row,
                        ptrdiff_t column_step)
{
    ef_column c = *row;
    for (;;) {
        const ef_packed *p = nodes + node;
        if (!p->left)
            return node;
        c.values = row->values + p->feature * column_step;
        float x = ef_value(&c, 0);
        int equal = p->flags & (EF_EQUAL >> 8), left;
        if (x != x || (equal && x == 0.0f))
            left = p->flags & (EF_MISSING_LEFT >> 8);
        else
            left = equal ? x == p->threshold : x <= p->threshold;
        node += left ? 1 : p->right;
    }
}

/* Some rows together, without a branch; not for categories. */
#define DESCEND(NAME, TYPE, MISSING)                                                               \
    static void NAME(const ef_packed *nodes, uint32_t root, const unsigned char *values,           \
                     ptrdiff_t row_step, ptrdiff_t column_step, uint32_t *leaves)                  \
    {                                                                                              \
        uint32_t node[LANES]; /* not `leaves` itself: the compiler keeps these in registers */     \
        for (int k = 0; k < LANES; k++)                                                            \
            node[k] = root;                                                                        \
        for (;;) {                                                                                 \
            unsigned more = 0;                                                                     \
            for (int k = 0; k < LANES; k++) {                                                      \
                const ef_packed *p = nodes + node[k];                                              \
                TYPE v;                                                                            \
                memcpy(&v, values + k * row_step + p->feature * column_step, sizeof v);            \
                float x = (float)v;                                                                \
                uint32_t left = x <= p->threshold; /* 0 or 1: what follows has no branch */        \
                if (MISSING)                                                                       \
                    left |= (uint32_t)(x != x) & (uint32_t)(p->flags >> 7);                        \
                more |= p->left;                                                                   \
                node[k] += (p->left & (0u - left)) | (p->right & (left - 1u));                     \
            }                                                                                      \
            if (!more)                                                                             \
                break;                                                                             \
        }                                                                                          \
        for (int k = 0; k < LANES; k++)                                                            \
            leaves[k] = node[k];                                                                   \
    }

DESCEND(descend_u8, uint8_t, 0)
DESCEND(descend_i16, int16_t, 0)
DESCEND(descend_f32, float, 1)
DESCEND(descend_f64, double, 1)

/* The leaves of one tree that rows first .. first + n reach. */
static void find_leaves(const ef_forest *forest, uint32_t root, const ef_rows *rows, size_t first,
                        size_t n, uint32_t *leaves)
{
    ef_column row;
    memset(&row, 0, sizeof row);
    row.type = rows->type == EF_CODES ? EF_U8 : rows->type;
    void (*descend_some)(const ef_packed *, uint32_t, const unsigned char *, ptrdiff_t, ptrdiff_t,
                         uint32_t *) = row.type == EF_U8    ? descend_u8
                                       : row.type == EF_I16 ? descend_i16
                                       : row.type == EF_F32 ? descend_f32
                                       : row.type == EF_F64 ? descend_f64
                                                            : NULL;
    const unsigned char *values = rows->values + (ptrdiff_t)first * rows->row_step;
    size_t i = 0;
    if (descend_some && !forest->equal)
        for (; i + LANES <= n; i += LANES)
            descend_some(forest->nodes, root, values + (ptrdiff_t)i * rows->row_step,
                         rows->row_step, rows->column_step, leaves + i);
    for (; i < n; i++) {
        row.values = values + (ptrdiff_t)i * rows->row_step;
        leaves[i] = descend(forest->nodes, root, &row, rows->column_step);
    }
}

/* Trees read rows in no order: fetch contiguous rows before. */
static void fetch_rows(const ef_rows *rows, size_t first, size_t n)
{
    if (rows->row_step > 0 && rows->row_step <= FETCH && rows->column_step <= 8)
        for (ptrdiff_t at = 0; at < (ptrdiff_t)n * rows->row_step; at += EF_LINE)
            EF_PREFETCH(rows->values + (ptrdiff_t)first * rows->row_step + at);
}

void ef_predict(const ef_forest *forest, const ef_rows *rows, size_t first, size_t n,
                uint32_t *out)
{
    size_t width = forest->width;
    memset(out, 0, n * width * sizeof *out);
    fetch_rows(rows, first, n);
    for (size_t tree = 0; tree < forest->n_trees; tree++) {
        uint32_t leaves[SOME];
        for (size_t at = 0; at < n; at += SOME) {
            size_t count = n - at < SOME ? n - at : SOME;
            find_leaves(forest, forest->roots[tree], rows, first + at, count, leaves);
            for (size_t i = 0; i < count; i++) {
                const uint16_t *votes = forest->votes + forest->nodes[leaves[i]].right * width;
                for (size_t k = 0; k < width; k++)
                    out[(at + i) * width + k] += votes[k];
            }
        }
    }
}

void ef_apply(const ef_forest *forest, const ef_rows *rows, size_t first, size_t n, uint32_t *out,
              size_t step)
{
    fetch_rows(rows, first, n);
    for (size_t tree = 0; tree < forest->n_trees; tree++)
        find_leaves(forest, forest->roots[tree], rows, first, n, out + tree * step);
}
