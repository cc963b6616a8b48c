/* Prediction on a board: nodes of eight bytes, and no floating point for rows of whole numbers. */
#include "internal.h"

/* A threshold rounded down, as Forest.round_down does. */
static int32_t round_down(float threshold)
{
    if (!(threshold > -(float)EF_MASK))
        return -EF_MASK;
    if (threshold >= (float)EF_MASK)
        return EF_MASK;
    int32_t whole = (int32_t)threshold;
    return (float)whole > threshold ? whole - 1 : whole;
}

int ef_make_compact(const uint16_t *feature, const float *threshold, const uint16_t *right16,
                    const uint32_t *right32, size_t n, ef_compact *nodes, uint32_t *features,
                    uint32_t *leaves)
{
    *features = *leaves = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t right = right16 ? right16[i] : right32[i];
        ef_compact *p = nodes + i;
        p->feature = feature[i];
        p->cut = round_down(threshold[i]);
        if (feature[i] == EF_LEAF) {
            *leaves = right >= *leaves ? right + 1 : *leaves;
        } else {
            uint32_t f = feature[i] & EF_FEATURE;
            *features = f >= *features ? f + 1 : *features;
            if (right <= i || right >= n) /* the left child is the next node, so it exists too */
                return -1;
            right -= (uint32_t)i;
        }
        if (right > UINT16_MAX)
            return -1;
        p->right = (uint16_t)right;
    }
    return 0;
}

/* Walk down a tree; a row's value x goes left at node p if IS_LEFT. */
#define WALK(TYPE, IS_MISSING, IS_LEFT)                                                            \
    {                                                                                              \
        const TYPE *values = row;                                                                  \
        for (uint32_t f; (f = p->feature) != EF_LEAF;) {                                           \
            TYPE x = values[f & EF_FEATURE];                                                       \
            int left;                                                                              \
            if (IS_MISSING || (f & EF_EQUAL && x == 0))                                            \
                left = (f & EF_MISSING_LEFT) != 0;                                                 \
            else                                                                                   \
                left = f & EF_EQUAL ? IS_LEFT(x, ==) : IS_LEFT(x, <=);                             \
            p += left ? 1 : p->right;                                                              \
        }                                                                                          \
        return p;                                                                                  \
    }
#define WHOLE(x, OPERATOR) ((int32_t)(x) OPERATOR p->cut)
#define LARGE(x, OPERATOR) ((x) <= EF_MASK && (int32_t)(x) OPERATOR p->cut)
#define NUMBER(x, OPERATOR) ((x) OPERATOR threshold[p - nodes])

const ef_compact *ef_walk(const ef_compact *nodes, uint32_t root, const void *row, ef_type type,
                          const float *threshold)
{
    const ef_compact *p = nodes + root;
    switch (type) {
    case EF_CODES:
    case EF_U8: WALK(uint8_t, 0, WHOLE)
    case EF_I8: WALK(int8_t, 0, WHOLE)
    case EF_I16: WALK(int16_t, 0, WHOLE)
    case EF_U16: WALK(uint16_t, 0, WHOLE)
    case EF_I32: WALK(int32_t, 0, WHOLE)
    case EF_U32: WALK(uint32_t, 0, LARGE)
    default: WALK(float, x != x, NUMBER)
    }
}
