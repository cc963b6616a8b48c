/* Predicting: an object that is called like Forest.predict_into, and allocates nothing. */
#include "binding.h"

typedef struct {
    mp_obj_base_t base;
    mp_obj_t plain, forest;    /* Forest.predict_into in Python, for rows that are not buffers */
    mp_obj_t votes, threshold; /* arrays of the forest */
    size_t n_nodes, n_trees, width;
    uint32_t features, leaves; /* that a row, and the votes, must have */
    ef_compact *nodes;
    uint32_t *roots;
} Predictor;

ef_type ef_kind(const mp_buffer_info_t *buffer)
{
    int is_32 = sizeof(long) == 4;
    switch (buffer->typecode) {
    case BYTEARRAY_TYPECODE:
    case 'B': return EF_U8;
    case 'b': return EF_I8;
    case 'h': return EF_I16;
    case 'H': return EF_U16;
    case 'i': return EF_I32;
    case 'I': return EF_U32;
    case 'l': return is_32 ? EF_I32 : EF_F64;
    case 'L': return is_32 ? EF_U32 : EF_F64;
    case 'f': return EF_F32;
    default: return EF_F64;
    }
}

void *ef_buffer(mp_obj_t object, ef_type kind, size_t count, mp_uint_t access)
{
    static const uint8_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(object, &buffer, access);
    if (ef_kind(&buffer) != kind || buffer.len / sizes[kind] < count)
        EF_REFUSE("a buffer has changed, or is too short");
    return buffer.buf;
}

/* An attribute of the forest that must be an array of this kind; sets its length. */
static void *array_of(mp_obj_t array, ef_type kind, size_t *length)
{
    mp_buffer_info_t buffer;
    mp_get_buffer_raise(array, &buffer, MP_BUFFER_READ);
    if (ef_kind(&buffer) != kind)
        EF_REFUSE("the arrays of this forest are not those of a model");
    *length = buffer.len / (kind == EF_U16 ? 2 : 4);
    return buffer.buf;
}

/* predictor(forest): takes the place of the forest's predict_into. */
mp_obj_t ef_predictor(mp_obj_t forest)
{
    mp_obj_t right_array = mp_load_attr(forest, MP_QSTR_right);
    mp_obj_t feature_array = mp_load_attr(forest, MP_QSTR_feature);
    mp_obj_t roots_array = mp_load_attr(forest, MP_QSTR_roots);
    Predictor *p = mp_obj_malloc(Predictor, (const mp_obj_type_t *)&ef_type_predictor);
    p->forest = forest;
    p->plain = mp_load_attr(MP_OBJ_FROM_PTR(mp_obj_get_type(forest)), MP_QSTR_predict_into);
    p->votes = mp_load_attr(forest, MP_QSTR_votes);
    p->threshold = mp_load_attr(forest, MP_QSTR_threshold);
    p->width = (size_t)mp_obj_get_int(mp_load_attr(forest, MP_QSTR_n_votes));
    size_t n, same, votes;
    array_of(feature_array, EF_U16, &n);
    array_of(roots_array, EF_U32, &p->n_trees);
    array_of(p->votes, EF_U16, &votes);
    p->n_nodes = n;
    p->nodes = NULL; /* predicts in Python, until all is known to be sound */
    ef_compact *nodes = n <= UINT16_MAX ? m_new(ef_compact, n ? n : 1) : NULL;
    p->roots = m_new(uint32_t, p->n_trees ? p->n_trees : 1);
    mp_store_attr(forest, MP_QSTR_predict_into, MP_OBJ_FROM_PTR(p));
    if (!nodes) /* too large */
        return mp_const_none;
    /* Memory is allocated: from here on nothing moves. */
    const uint16_t *feature = array_of(feature_array, EF_U16, &same);
    const float *threshold = array_of(p->threshold, EF_F32, &votes);
    if (same != n || votes != n)
        EF_REFUSE("the arrays of this forest are not those of a model");
    const uint32_t *roots = array_of(roots_array, EF_U32, &same);
    mp_buffer_info_t right;
    mp_get_buffer_raise(right_array, &right, MP_BUFFER_READ);
    int wide = ef_kind(&right) == EF_U32;
    if (same != p->n_trees || right.len != n * (wide ? 4 : 2) || p->width < 1 ||
        (!wide && ef_kind(&right) != EF_U16) ||
        ef_make_compact(feature, threshold, wide ? NULL : right.buf, wide ? right.buf : NULL, n,
                        nodes, &p->features, &p->leaves))
        EF_REFUSE("the arrays of this forest are not those of a model");
    for (size_t i = 0; i < p->n_trees; i++) {
        if (roots[i] >= n)
            EF_REFUSE("a root must be one of the nodes");
        p->roots[i] = roots[i];
    }
    if (p->width > UINT16_MAX || p->features > EF_FEATURE + 1)
        EF_REFUSE("the arrays of this forest are not those of a model");
    p->nodes = nodes;
    return mp_const_none;
}

mp_obj_t ef_predictor_call(mp_obj_t self, size_t n_args, size_t n_kw, const mp_obj_t *args)
{
    const Predictor *p = MP_OBJ_TO_PTR(self);
    mp_buffer_info_t row, out, votes, threshold;
    mp_obj_t *items = NULL;
    uint32_t *sums = NULL;
    size_t places;
    mp_arg_check_num(n_args, n_kw, 2, 2, false);
    ef_type kind = mp_get_buffer(args[0], &row, MP_BUFFER_READ) ? ef_kind(&row) : EF_F64;
    if (mp_obj_get_type(args[1]) == &mp_type_list) {
        mp_obj_list_t *list = MP_OBJ_TO_PTR(args[1]);
        items = list->items;
        places = list->len;
    } else {
        ef_type given = mp_get_buffer(args[1], &out, MP_BUFFER_RW) ? ef_kind(&out) : EF_F64;
        if (given != EF_I32 && given != EF_U32)
            kind = EF_F64;
        sums = out.buf;
        places = out.len / sizeof *sums;
    }
    if (kind == EF_F64 || !p->nodes) {
        mp_obj_t all[3] = {p->forest, args[0], args[1]};
        return mp_call_function_n_kw(p->plain, 3, 0, all);
    }
    size_t size = kind <= EF_U8 ? 1 : kind <= EF_U16 ? 2 : 4, width = p->width;
    mp_get_buffer_raise(p->votes, &votes, MP_BUFFER_READ);
    threshold.buf = NULL;
    threshold.len = p->n_nodes * sizeof(float);
    if (kind == EF_F32)
        mp_get_buffer_raise(p->threshold, &threshold, MP_BUFFER_READ);
    if (row.len < p->features * size || places < width)
        EF_REFUSE("a row must have all features, and out a place for each class");
    if (votes.len / 2 / width < p->leaves || threshold.len < p->n_nodes * sizeof(float))
        EF_REFUSE("a forest must not be made smaller while it predicts");
    for (size_t k = 0; k < width; k++)
        if (items)
            items[k] = MP_OBJ_NEW_SMALL_INT(0);
        else
            sums[k] = 0;
    for (size_t tree = 0; tree < p->n_trees; tree++) {
        const ef_compact *leaf = ef_walk(p->nodes, p->roots[tree], row.buf, kind, threshold.buf);
        const uint16_t *its = (const uint16_t *)votes.buf + leaf->right * width;
        for (size_t k = 0; k < width; k++)
            if (items)
                items[k] = MP_OBJ_NEW_SMALL_INT(MP_OBJ_SMALL_INT_VALUE(items[k]) + its[k]);
            else
                sums[k] += its[k];
    }
    size_t best = 0;
    for (size_t k = 1; k < width; k++)
        if (items ? MP_OBJ_SMALL_INT_VALUE(items[k]) > MP_OBJ_SMALL_INT_VALUE(items[best])
                  : sums[k] > sums[best])
            best = k;
    return MP_OBJ_NEW_SMALL_INT(best);
}
