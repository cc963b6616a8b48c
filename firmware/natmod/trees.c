/* Growing trees: the kernel's task and tree in MicroPython's heap. */
#include "binding.h"

#include <string.h>

enum { IDLE, BEGUN, CLOSED };

typedef struct {
    mp_obj_base_t base;
    mp_obj_t *columns, *bounds; /* of each feature; bounds are NULL if values are codes */
    mp_obj_t weights, patch;    /* or None */
    ef_column *fields;
    size_t m;
    void *workspace;
    ef_task task;
    ef_tree tree;
    int64_t leaves;
    uint8_t state, late;
} Trees;

/* The numbers of a task, in the order of `_make_trees` in edgeforest_kernel.py. */
enum {
    ROWS, POOL, SAMPLE_SIZE, BATCH, MAX_DEPTH, MIN_LEAF, MIN_SPLIT, MAX_LEAVES, MAX_FEATURES, BINS,
    WIDTH, SEED, SCALE, CRITERION, SPLITTER, EXTRA, BOOTSTRAP, RAW, NUMBERS
};
enum { IMPURITY, Z, TOLERANCE, CONFIDENCE, REALS };

static Trees *trees_of(mp_obj_t object)
{
    if (mp_obj_get_type(object) != (const mp_obj_type_t *)&ef_type_trees)
        mp_raise_TypeError(MP_ERROR_TEXT("expected what `trees` has returned"));
    return MP_OBJ_TO_PTR(object);
}

/* Find the memory of everything that Python owns: it may have moved since the last call. */
static void look_up(Trees *t)
{
    for (size_t f = 0; f < t->m; f++) {
        ef_column *c = t->fields + f;
        c->values = ef_buffer(t->columns[f], EF_U8, (size_t)t->task.n, MP_BUFFER_READ);
        if (t->bounds)
            c->bounds = ef_buffer(t->bounds[f], EF_F32, (size_t)c->last + 1, MP_BUFFER_READ);
    }
    if (t->task.weights)
        t->task.weights = ef_buffer(t->weights, EF_U32, (size_t)t->task.pool + 1, MP_BUFFER_READ);
    if (t->task.patch)
        t->task.patch = ef_buffer(t->patch, EF_U32, (size_t)t->task.pool, MP_BUFFER_READ);
}

static void read_numbers(ef_task *task, mp_obj_t whole, mp_obj_t real)
{
    const int32_t *n = ef_buffer(whole, EF_I32, NUMBERS, MP_BUFFER_READ);
    mp_buffer_info_t buffer;
    ef_real r[REALS];
    mp_get_buffer_raise(real, &buffer, MP_BUFFER_READ);
    if (buffer.typecode != EF_LETTER || buffer.len < sizeof r)
        EF_REFUSE("the real numbers of a task must be an array of four");
    memcpy(r, buffer.buf, sizeof r);
    task->n = n[ROWS];
    task->pool = n[POOL];
    task->sample_size = n[SAMPLE_SIZE];
    task->batch = n[BATCH];
    task->max_depth = n[MAX_DEPTH];
    task->min_samples_leaf = n[MIN_LEAF];
    task->min_samples_split = n[MIN_SPLIT];
    task->max_leaf_nodes = n[MAX_LEAVES];
    task->max_features = n[MAX_FEATURES];
    task->n_bins = n[BINS];
    task->width = n[WIDTH];
    task->seed = (uint32_t)n[SEED];
    task->scale = (uint32_t)n[SCALE];
    task->mask = EF_MASK;
    task->criterion = n[CRITERION] >= 0 && n[CRITERION] <= EF_MSE ? (uint8_t)n[CRITERION] : 255;
    task->splitter = n[SPLITTER] >= 0 && n[SPLITTER] <= EF_EXACT ? (uint8_t)n[SPLITTER] : 255;
    task->extra = n[EXTRA] != 0;
    task->bootstrap = n[BOOTSTRAP] != 0;
    task->raw = n[RAW] != 0;
    task->min_impurity_decrease = r[IMPURITY];
    task->z = r[Z];
    task->tolerance = r[TOLERANCE];
    task->confidence = r[CONFIDENCE];
}

/* A copy of a buffer's bytes, so that Python cannot change what was checked. */
static void *copy_of(mp_obj_t object, size_t bytes)
{
    mp_buffer_info_t buffer;
    void *copy = m_malloc(bytes ? bytes : 1);
    mp_get_buffer_raise(object, &buffer, MP_BUFFER_READ);
    if (buffer.len < bytes)
        EF_REFUSE("a buffer is too short");
    memcpy(copy, buffer.buf, bytes);
    return copy;
}

/* The objects of a list of exactly m. */
static mp_obj_t *objects_of(mp_obj_t list, size_t m)
{
    size_t length;
    mp_obj_t *items, *copy = m_new(mp_obj_t, m);
    mp_obj_get_array(list, &length, &items);
    if (length != m)
        EF_REFUSE("each feature needs a column, bounds and a number of categories");
    memcpy(copy, items, m * sizeof *copy);
    return copy;
}

/* trees(columns, bounds or None, kinds, y, features, weights or None, patch or None, whole, real):
 * a task, and memory to grow its trees in. `kinds` has the number of categories of each feature. */
mp_obj_t ef_trees(size_t n_args, const mp_obj_t *args)
{
    (void)n_args;
    mp_buffer_info_t kinds, features, labels;
    mp_obj_t *unused;
    Trees *t = mp_obj_malloc(Trees, (const mp_obj_type_t *)&ef_type_trees);
    memset((char *)t + sizeof t->base, 0, sizeof *t - sizeof t->base);
    ef_task *task = &t->task;
    read_numbers(task, args[7], args[8]);
    if (task->n < 1 || task->n > EF_MASK || task->pool < 1 || task->pool > task->n)
        EF_REFUSE("a task needs rows");
    mp_obj_get_array(args[0], &t->m, &unused);
    if (t->m < 1 || t->m > EF_FEATURE)
        EF_REFUSE("features must be from 1 to 16383");
    t->columns = objects_of(args[0], t->m);
    t->bounds = args[1] == mp_const_none ? NULL : objects_of(args[1], t->m);
    t->fields = m_new(ef_column, t->m);
    memset(t->fields, 0, t->m * sizeof *t->fields);
    for (size_t f = 0; f < t->m; f++) {
        ef_column *c = t->fields + f;
        c->step = 1;
        c->last = 255;
        if (t->bounds) {
            mp_get_buffer_raise(t->bounds[f], &labels, MP_BUFFER_READ);
            c->last = labels.len < 256 * sizeof(float) ? (int32_t)(labels.len / sizeof(float)) - 1
                                                       : 255;
        }
        mp_get_buffer_raise(args[2], &kinds, MP_BUFFER_READ);
        if (kinds.len != t->m || c->last < 0)
            EF_REFUSE("each feature needs a column, bounds and a number of categories");
        c->categories = ((const uint8_t *)kinds.buf)[f];
    }
    mp_get_buffer_raise(args[3], &labels, MP_BUFFER_READ);
    ef_type width = ef_kind(&labels);
    if (width != EF_U8 && width != EF_U16)
        EF_REFUSE("labels must be bytes or an array of H");
    void *y = copy_of(args[3], (size_t)task->n * (width == EF_U8 ? 1 : 2));
    task->y8 = width == EF_U8 ? y : NULL;
    task->y16 = width == EF_U16 ? y : NULL;
    mp_get_buffer_raise(args[4], &features, MP_BUFFER_READ);
    if (ef_kind(&features) != EF_U16)
        EF_REFUSE("features must be an array of H");
    task->n_usable = (int32_t)(features.len / 2 <= EF_FEATURE ? features.len / 2 : EF_FEATURE + 1);
    task->usable = copy_of(args[4], (size_t)task->n_usable * 2);
    task->columns = t->fields;
    t->weights = args[5];
    t->patch = args[6];
    /* Any address but NULL says that there are some: look_up finds the right one. */
    task->weights = t->weights == mp_const_none ? NULL : (const uint32_t *)(void *)t;
    task->patch = t->patch == mp_const_none ? NULL : (const uint32_t *)(void *)t;
    look_up(t);
    if (ef_task_wrong(task, (int32_t)t->m))
        EF_REFUSE("the kernel refuses these arguments");
    t->workspace = m_malloc(ef_workspace_bytes(task));
    return MP_OBJ_FROM_PTR(t);
}

/* begin(trees, index, insertions, nodes): insertions and nodes it may use, -1 for no limit. */
mp_obj_t ef_begin(size_t n_args, const mp_obj_t *args)
{
    (void)n_args;
    Trees *t = trees_of(args[0]);
    mp_int_t index = mp_obj_get_int(args[1]), left = mp_obj_get_int(args[2]);
    mp_int_t most = mp_obj_get_int(args[3]);
    if (index < 0 || left < -1 || most < -1 || most == 0)
        EF_REFUSE("a tree needs a number, insertions and nodes");
    ef_node *nodes = t->tree.nodes;
    int64_t room = t->tree.room;
    ef_tree_begin(&t->tree, &t->task, (uint32_t)index, t->workspace);
    t->tree.nodes = nodes;
    t->tree.room = room;
    t->tree.left = left;
    t->tree.most = most;
    t->state = BEGUN;
    return mp_const_none;
}

static ef_word poll(void *context, int every_round)
{
    (void)every_round;
    return ((const Trees *)context)->late ? EF_LATE : EF_GO;
}

static void enlarge(Trees *t, int64_t room)
{
    ef_tree *tree = &t->tree;
    if (tree->most > 0 && room > tree->most)
        room = tree->most; /* a budget in bytes allows no more */
    tree->nodes = m_renew(ef_node, tree->nodes, (size_t)tree->room, (size_t)room);
    tree->room = room;
}

/* grow(trees, insertions, late) -> whether there is more to do. Grows for about that many
 * insertions; `late` is 1 if the time is up, 0 if not, -1 if time is not limited. */
mp_obj_t ef_grow(mp_obj_t trees, mp_obj_t insertions, mp_obj_t late)
{
    Trees *t = trees_of(trees);
    mp_int_t some = mp_obj_get_int(insertions), when = mp_obj_get_int(late);
    if (t->state != BEGUN || some < 0)
        EF_REFUSE("begin a tree before you grow it");
    look_up(t);
    t->late = when > 0;
    t->tree.limited = when >= 0;
    t->tree.poll = poll;
    t->tree.context = t;
    ef_status status;
    while ((status = ef_tree_grow(&t->tree, some)) == EF_FULL)
        enlarge(t, t->tree.room ? 2 * t->tree.room : 32);
    return mp_obj_new_bool(status == EF_MORE);
}

/* spent(trees) -> (insertions, rows read, rounds) of the tree. */
mp_obj_t ef_spent(mp_obj_t trees)
{
    const ef_tree *tree = &trees_of(trees)->tree;
    mp_obj_t all[3] = {mp_obj_new_int((mp_int_t)tree->insertions),
                       mp_obj_new_int((mp_int_t)tree->rows_read),
                       mp_obj_new_int((mp_int_t)tree->rounds)};
    return mp_obj_new_tuple(3, all);
}

/* close(trees) -> (nodes, leaves) of the tree, which is complete now. */
mp_obj_t ef_close(mp_obj_t trees)
{
    Trees *t = trees_of(trees);
    if (t->state != BEGUN)
        EF_REFUSE("begin a tree before you close it");
    look_up(t);
    if (!t->tree.room) /* stopped before it began */
        enlarge(t, 1);
    t->leaves = ef_tree_close(&t->tree);
    t->state = CLOSED;
    mp_obj_t both[2] = {mp_obj_new_int((mp_int_t)t->tree.n_nodes),
                        mp_obj_new_int((mp_int_t)t->leaves)};
    return mp_obj_new_tuple(2, both);
}

/* write(trees, feature, threshold, right, votes, importance, nodes before, votes before): the closed
 * tree into the arrays of a forest, which have room for it. */
mp_obj_t ef_write(size_t n_args, const mp_obj_t *args)
{
    (void)n_args;
    Trees *t = trees_of(args[0]);
    mp_int_t here = mp_obj_get_int(args[6]), votes_here = mp_obj_get_int(args[7]);
    if (t->state != CLOSED || here < 0 || votes_here < 0 || here > EF_MASK || votes_here > EF_MASK)
        EF_REFUSE("close a tree before you write it");
    size_t end = (size_t)(here + t->tree.n_nodes), last = (size_t)(votes_here + t->leaves);
    size_t width = t->task.criterion == EF_MSE ? 1 : (size_t)t->task.width;
    if (last > SIZE_MAX / 2 / width)
        EF_REFUSE("a forest has too many votes");
    uint16_t *feature = ef_buffer(args[1], EF_U16, end, MP_BUFFER_RW);
    float *threshold = ef_buffer(args[2], EF_F32, end, MP_BUFFER_RW);
    uint16_t *votes = ef_buffer(args[4], EF_U16, last * width, MP_BUFFER_RW);
    mp_buffer_info_t right, importance;
    mp_get_buffer_raise(args[3], &right, MP_BUFFER_RW);
    mp_get_buffer_raise(args[5], &importance, MP_BUFFER_RW);
    int wide = ef_kind(&right) == EF_U32;
    if ((!wide && (ef_kind(&right) != EF_U16 || end > 65536 || last > 65536)) ||
        right.len / (wide ? 4 : 2) < end)
        EF_REFUSE("right must be an array of H or I with room for the tree");
    if (importance.typecode != EF_LETTER || importance.len / sizeof(ef_real) < t->m)
        EF_REFUSE("importance must be an array of real numbers, one for each feature");
    t->state = IDLE;
    ef_tree_write(&t->tree, (uint32_t)here, (uint32_t)votes_here, feature + here, threshold + here,
                  wide ? NULL : (uint16_t *)right.buf + here,
                  wide ? (uint32_t *)right.buf + here : NULL, votes + (size_t)votes_here * width,
                  importance.buf);
    return mp_const_none;
}
