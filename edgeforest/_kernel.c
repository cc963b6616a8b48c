/* The Python binding of firmware/kernel: buffers in, arrays out. Used by core_native.py alone.
 *
 * Stable ABI of Python 3.11. The interpreter's lock is released while trees grow and rows are
 * read; signals are looked at about twenty times a second, so that Ctrl-C works.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../firmware/kernel/edgeforest.h"

#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <time.h>
#endif

enum { KERNEL = 3 }; /* core_native.py asks for it: another number where the two do not fit */

static double now(void)
{
#ifdef _WIN32
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#endif
}

/* ---- Columns that lie in Python's buffers ---- */

enum { LAYOUT = 6 }; /* numbers that say where a column lies; see core_native._Columns */

typedef struct {
    Py_buffer *views;
    Py_ssize_t n_views;
    ef_column *columns;
    Py_ssize_t m;
    float *bounds;
    uint8_t *grids;
} Columns;

static void columns_free(Columns *c)
{
    for (Py_ssize_t i = 0; i < c->n_views; i++)
        PyBuffer_Release(c->views + i);
    PyMem_Free(c->views);
    PyMem_Free(c->columns);
    PyMem_Free(c->bounds);
    PyMem_Free(c->grids);
    memset(c, 0, sizeof *c);
}

/* Columns from a list of buffers, where each column lies in them, and bounds (or None). */
static int columns_make(Columns *c, PyObject *buffers, PyObject *layout, PyObject *bounds)
{
    Py_buffer where, given;
    memset(c, 0, sizeof *c);
    if (PyObject_GetBuffer(layout, &where, PyBUF_SIMPLE) < 0)
        return -1;
    const int64_t *places = where.buf;
    Py_ssize_t n = PyList_Size(buffers), m = where.len / (LAYOUT * (Py_ssize_t)sizeof(int64_t));
    if (n < 0)
        goto fail;
    c->views = PyMem_Calloc((size_t)n + 1, sizeof *c->views);
    c->columns = PyMem_Calloc((size_t)m + 1, sizeof *c->columns);
    if (!c->views || !c->columns) {
        PyErr_NoMemory();
        goto fail;
    }
    for (; c->n_views < n; c->n_views++)
        if (PyObject_GetBuffer(PyList_GetItem(buffers, c->n_views), c->views + c->n_views,
                               PyBUF_STRIDES) < 0)
            goto fail;
    c->m = m;
    int numbers = 0;
    for (Py_ssize_t f = 0; f < m; f++) {
        const int64_t *place = places + f * LAYOUT;
        ef_column *column = c->columns + f;
        column->values = (const unsigned char *)c->views[place[0]].buf + place[1];
        column->step = (ptrdiff_t)place[2];
        column->type = (uint8_t)place[3];
        column->last = (int32_t)place[4];
        column->categories = (uint8_t)place[5];
        numbers |= column->type != EF_CODES;
    }
    if (bounds != Py_None) {
        size_t bytes = (size_t)m * EF_BOUNDS * sizeof(float);
        if (PyObject_GetBuffer(bounds, &given, PyBUF_SIMPLE) < 0)
            goto fail;
        c->bounds = PyMem_Malloc(bytes);
        c->grids = numbers ? PyMem_Malloc((size_t)m * (EF_GRID + 2)) : NULL;
        if (!c->bounds || (numbers && !c->grids) || (size_t)given.len != bytes) {
            PyBuffer_Release(&given);
            PyErr_NoMemory();
            goto fail;
        }
        memcpy(c->bounds, given.buf, bytes);
        PyBuffer_Release(&given);
        for (Py_ssize_t f = 0; f < m; f++) {
            ef_column *column = c->columns + f;
            if (column->categories)
                continue;
            column->bounds = c->bounds + f * EF_BOUNDS;
            if (column->type != EF_CODES)
                ef_grid(column, c->grids + f * (EF_GRID + 2));
        }
    }
    PyBuffer_Release(&where);
    return 0;
fail:
    PyBuffer_Release(&where);
    columns_free(c);
    return -1;
}

/* bounds(buffers, layout, rows, n, out, last): the bounds of every column. `rows` is a sample of
 * rows (uint32), or None for the first n. */
static PyObject *kernel_bounds(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *sample;
    Py_buffer out, last, rows;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OOnw*w*", &PyList_Type, &buffers, &layout, &sample, &n, &out,
                          &last))
        return NULL;
    PyObject *result = NULL;
    uint32_t *all = NULL;
    rows.obj = NULL;
    if (columns_make(&c, buffers, layout, Py_None) < 0)
        goto done;
    if (sample != Py_None) {
        if (PyObject_GetBuffer(sample, &rows, PyBUF_SIMPLE) < 0)
            goto done;
        n = rows.len / (Py_ssize_t)sizeof(uint32_t);
    }
    all = PyMem_Malloc((size_t)n * (sizeof(uint32_t) + 2 * sizeof(float)) + 1);
    if (!all) {
        PyErr_NoMemory();
        goto done;
    }
    float *values = (float *)(void *)(all + n), *spare = values + n;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++)
        all[i] = sample == Py_None ? (uint32_t)i : ((const uint32_t *)rows.buf)[i];
    for (Py_ssize_t f = 0; f < c.m; f++) {
        if (c.columns[f].type == EF_CODES)
            continue;
        ef_floats(c.columns + f, all, (size_t)n, values);
        ((int32_t *)last.buf)[f] =
            ef_make_bounds(values, (size_t)n, spare, (float *)out.buf + f * EF_BOUNDS) - 1;
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
done:
    PyMem_Free(all);
    if (rows.obj)
        PyBuffer_Release(&rows);
    columns_free(&c);
    PyBuffer_Release(&out);
    PyBuffer_Release(&last);
    return result;
}

/* encode(buffers, layout, bounds, first, n, codes): codes of rows first .. first + n, row by row.
 * Returns None, or the column that holds an infinite number. */
static PyObject *kernel_encode(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *bounds;
    Py_buffer codes;
    Py_ssize_t first, n, infinite = -1;
    Columns c;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OOnnw*", &PyList_Type, &buffers, &layout, &bounds, &first, &n,
                          &codes))
        return NULL;
    if (columns_make(&c, buffers, layout, bounds) < 0) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    enum { BLOCK = 128 };
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = first; at < first + n; at += BLOCK) {
        Py_ssize_t count = first + n - at < BLOCK ? first + n - at : BLOCK;
        for (Py_ssize_t f = 0; f < c.m; f++) {
            uint8_t *to = (uint8_t *)codes.buf + at * c.m + f;
            if (c.columns[f].type != EF_CODES &&
                ef_encode(c.columns + f, (size_t)at, (size_t)count, to, c.m) >= 0)
                infinite = f;
        }
    }
    Py_END_ALLOW_THREADS
    columns_free(&c);
    PyBuffer_Release(&codes);
    return infinite < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(infinite);
}

/* classes(buffer, layout, n, codes) -> the distinct whole numbers of a column in order, with each
 * row's place among them in `codes` (uint16); None if they spread too far. */
static PyObject *kernel_classes(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *result = NULL;
    Py_buffer codes;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &codes))
        return NULL;
    if (columns_make(&c, buffers, layout, Py_None) < 0) {
        PyBuffer_Release(&codes);
        return NULL;
    }
    enum { SPREAD = 65536 };
    uint16_t *place = PyMem_Calloc(SPREAD, sizeof *place), *out = codes.buf;
    int64_t low = INT64_MAX, high = INT64_MIN;
    if (!place) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t v = ef_whole(c.columns, (uint32_t)i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    if ((uint64_t)high - (uint64_t)low < SPREAD) {
        for (Py_ssize_t i = 0; i < n; i++)
            place[ef_whole(c.columns, (uint32_t)i) - low] = 1;
        uint16_t before = 0;
        for (int v = 0; v < SPREAD; v++) {
            uint16_t some = place[v];
            place[v] = before;
            before = (uint16_t)(before + some);
        }
        for (Py_ssize_t i = 0; i < n; i++)
            out[i] = place[ef_whole(c.columns, (uint32_t)i) - low];
    }
    Py_END_ALLOW_THREADS
    if ((uint64_t)high - (uint64_t)low >= SPREAD) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    result = PyList_New(0);
    for (int v = 0; result && v <= high - low; v++) {
        if (v < high - low ? place[v] == place[v + 1] : 0)
            continue;
        PyObject *number = PyLong_FromLongLong(low + v);
        if (!number || PyList_Append(result, number) < 0)
            Py_CLEAR(result);
        Py_XDECREF(number);
    }
done:
    PyMem_Free(place);
    columns_free(&c);
    PyBuffer_Release(&codes);
    return result;
}

/* targets(buffer, layout, n, levels) -> (smallest, span) of a column of float32 numbers, with each
 * row's level between them in `levels` (uint16); None if one is no finite number. */
static PyObject *kernel_targets(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *result = NULL;
    Py_buffer levels;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &levels))
        return NULL;
    if (columns_make(&c, buffers, layout, Py_None) == 0) {
        double low = 0, high = 0, span;
        if (ef_levels(c.columns, (size_t)n, levels.buf, &low, &high)) {
            span = high - low;
            result = Py_BuildValue("dd", low, span);
        } else {
            result = Py_NewRef(Py_None);
        }
        columns_free(&c);
    }
    PyBuffer_Release(&levels);
    return result;
}

/* fill(z, w, n, out): Rng.fill; returns the generator's new state. */
static PyObject *kernel_fill(PyObject *self, PyObject *args)
{
    ef_rng rng;
    unsigned z, w, n;
    Py_buffer out;
    (void)self;
    if (!PyArg_ParseTuple(args, "IIIw*", &z, &w, &n, &out))
        return NULL;
    rng.z = z;
    rng.w = w;
    ef_rng_fill(&rng, out.buf, (size_t)out.len / sizeof(uint32_t), n);
    PyBuffer_Release(&out);
    return Py_BuildValue("II", (unsigned)rng.z, (unsigned)rng.w);
}

/* ---- Tasks and trees ---- */

typedef struct {
    ef_task task;
    Columns columns;
    Py_buffer usable, y, weights, patch;
} Task;

static const char TASK[] = "edgeforest._kernel.task", TREE[] = "edgeforest._kernel.tree";

static void task_free(PyObject *capsule)
{
    Task *t = PyCapsule_GetPointer(capsule, TASK);
    columns_free(&t->columns);
    Py_buffer *views[] = {&t->usable, &t->y, &t->weights, &t->patch};
    for (int i = 0; i < 4; i++)
        if (views[i]->obj)
            PyBuffer_Release(views[i]);
    PyMem_Free(t);
}

static int optional(PyObject *object, Py_buffer *view)
{
    return object == Py_None ? 0 : PyObject_GetBuffer(object, view, PyBUF_SIMPLE);
}

/* task(columns, usable, y, weights, patch, whole, real) -> (task, bytes of a workspace).
 * `columns` is (buffers, layout, bounds); `whole` and `real` are the numbers of ef_task. */
static PyObject *kernel_task(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *bounds, *usable, *y, *weights, *patch;
    long long n, pool, sample_size, batch, max_depth, leaf, split, leaf_nodes;
    unsigned seed, scale, mask;
    int max_features, n_bins, width, criterion, splitter, extra, bootstrap, raw, wide_y;
    double decrease, z, tolerance, confidence;
    (void)self;
    if (!PyArg_ParseTuple(args, "(O!OO)OOOO(LLLLLLLLiiiIIIiiiiii)(dddd)", &PyList_Type, &buffers,
                          &layout, &bounds, &usable, &y, &weights, &patch, &n, &pool, &sample_size,
                          &batch, &max_depth, &leaf, &split, &leaf_nodes, &max_features, &n_bins, &width,
                          &seed, &scale, &mask, &criterion, &splitter, &extra, &bootstrap, &raw,
                          &wide_y, &decrease, &z, &tolerance, &confidence))
        return NULL;
    Task *t = PyMem_Calloc(1, sizeof *t);
    if (!t)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(t, TASK, task_free);
    if (!capsule) {
        PyMem_Free(t);
        return NULL;
    }
    if (columns_make(&t->columns, buffers, layout, bounds) < 0 || optional(usable, &t->usable) < 0 ||
        optional(y, &t->y) < 0 || optional(weights, &t->weights) < 0 ||
        optional(patch, &t->patch) < 0) {
        Py_DECREF(capsule);
        return NULL;
    }
    ef_task *e = &t->task;
    e->columns = t->columns.columns;
    e->usable = t->usable.buf;
    e->n_usable = (int32_t)(t->usable.len / (Py_ssize_t)sizeof(uint16_t));
    e->y8 = wide_y ? NULL : t->y.buf;
    e->y16 = wide_y ? t->y.buf : NULL;
    e->weights = t->weights.obj ? t->weights.buf : NULL;
    e->patch = t->patch.obj ? t->patch.buf : NULL;
    e->n = n;
    e->pool = pool;
    e->sample_size = sample_size;
    e->batch = batch;
    e->max_depth = max_depth;
    e->min_samples_leaf = leaf;
    e->min_samples_split = split;
    e->max_leaf_nodes = leaf_nodes;
    e->max_features = max_features;
    e->n_bins = n_bins;
    e->width = width;
    e->seed = seed;
    e->scale = scale;
    e->mask = mask;
    e->criterion = (uint8_t)criterion;
    e->splitter = (uint8_t)splitter;
    e->extra = (uint8_t)extra;
    e->bootstrap = (uint8_t)bootstrap;
    e->raw = (uint8_t)raw;
    e->row_major = t->columns.m > 1;
    for (Py_ssize_t f = 0; f < t->columns.m; f++) {
        const ef_column *c = e->columns + f;
        if (c->type != EF_CODES || c->step != e->columns->step || c->step < t->columns.m)
            e->row_major = 0;
    }
    e->min_impurity_decrease = decrease;
    e->z = z;
    e->tolerance = tolerance;
    e->confidence = confidence;
    PyObject *bytes = PyLong_FromSize_t(ef_workspace_bytes(e));
    if (!bytes) {
        Py_DECREF(capsule);
        return NULL;
    }
    return Py_BuildValue("NN", capsule, bytes);
}

typedef struct {
    ef_tree tree;
    PyObject *task; /* kept alive */
    void *workspace;
    const volatile uint8_t *stop; /* set by another thread */
    double until, looked;         /* seconds; until < 0: no limit */
    PyThreadState *thread;
    int interrupted;
} Tree;

static void tree_free(PyObject *capsule)
{
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    free(t->workspace);
    free(t->tree.nodes);
    Py_DECREF(t->task);
    PyMem_Free(t);
}

/* tree(task): room to grow one tree after the other in. */
static PyObject *kernel_tree(PyObject *self, PyObject *task)
{
    (void)self;
    Task *given = PyCapsule_GetPointer(task, TASK);
    if (!given)
        return NULL;
    Tree *t = PyMem_Calloc(1, sizeof *t);
    if (!t)
        return PyErr_NoMemory();
    t->task = Py_NewRef(task);
    t->workspace = malloc(ef_workspace_bytes(&given->task) + 1);
    PyObject *capsule = t->workspace ? PyCapsule_New(t, TREE, tree_free) : PyErr_NoMemory();
    if (!capsule) {
        free(t->workspace);
        Py_DECREF(task);
        PyMem_Free(t);
    }
    return capsule;
}

/* begin(tree, index, insertions, nodes): insertions and nodes it may use, -1 for any number. */
static PyObject *kernel_begin(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    unsigned index;
    long long insertions, nodes;
    (void)self;
    if (!PyArg_ParseTuple(args, "OILL", &capsule, &index, &insertions, &nodes))
        return NULL;
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (!t)
        return NULL;
    const Task *task = PyCapsule_GetPointer(t->task, TASK);
    ef_node *old = t->tree.nodes;
    int64_t room = t->tree.room;
    ef_tree_begin(&t->tree, &task->task, index, t->workspace);
    t->tree.nodes = old;
    t->tree.room = room;
    t->tree.left = insertions;
    t->tree.most = nodes;
    t->interrupted = 0;
    return Py_NewRef(Py_None);
}

static ef_word poll(void *context, int every_round)
{
    Tree *t = context;
    if (t->stop && *t->stop)
        return EF_STOP;
    if (every_round && t->until < 0)
        return EF_GO;
    double time = now();
    if (time - t->looked > 0.05) {
        t->looked = time;
        PyEval_RestoreThread(t->thread);
        t->interrupted = PyErr_CheckSignals() < 0;
        t->thread = PyEval_SaveThread();
        if (t->interrupted)
            return EF_STOP;
    }
    return t->until >= 0 && time >= t->until ? EF_LATE : EF_GO;
}

/* grow(tree, insertions, seconds, stop) -> whether there is more to do. Grows for about that many
 * insertions; `seconds` are what is left of the time, -1 for any; `stop` is a byte that another
 * thread may set. */
static PyObject *kernel_grow(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long insertions;
    double seconds;
    Py_buffer stop;
    (void)self;
    if (!PyArg_ParseTuple(args, "OLdy*", &capsule, &insertions, &seconds, &stop))
        return NULL;
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (!t) {
        PyBuffer_Release(&stop);
        return NULL;
    }
    t->stop = stop.buf;
    t->looked = now();
    t->until = seconds < 0 ? -1 : t->looked + seconds;
    t->tree.limited = seconds >= 0;
    t->tree.poll = poll;
    t->tree.context = t;
    ef_status status;
    int starved = 0;
    t->thread = PyEval_SaveThread();
    while ((status = ef_tree_grow(&t->tree, insertions)) == EF_FULL) {
        int64_t room = t->tree.room ? 2 * t->tree.room : 64;
        if (t->tree.most > 0 && room > t->tree.most)
            room = t->tree.most; /* a budget in bytes pays for no more */
        ef_node *nodes = realloc(t->tree.nodes, (size_t)room * sizeof *nodes);
        if (!nodes) {
            starved = 1;
            break;
        }
        t->tree.nodes = nodes;
        t->tree.room = room;
    }
    PyEval_RestoreThread(t->thread);
    t->stop = NULL;
    PyBuffer_Release(&stop);
    if (starved)
        return PyErr_NoMemory();
    if (t->interrupted)
        return NULL;
    if (t->tree.infinite) {
        PyErr_SetString(PyExc_OverflowError, "infinite");
        return NULL;
    }
    return PyBool_FromLong(status == EF_MORE);
}

/* spent(tree) -> (insertions, rows read, rounds) */
static PyObject *kernel_spent(PyObject *self, PyObject *capsule)
{
    (void)self;
    const Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (!t)
        return NULL;
    return Py_BuildValue("LLL", (long long)t->tree.insertions, (long long)t->tree.rows_read,
                         (long long)t->tree.rounds);
}

/* close(tree, importance, nodes before, votes before) -> bytes of feature, threshold, right (as
 * uint32) and votes, in preorder. */
static PyObject *kernel_close(PyObject *self, PyObject *args)
{
    PyObject *capsule, *parts[4] = {NULL, NULL, NULL, NULL};
    Py_buffer importance;
    unsigned here, votes_here;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ow*II", &capsule, &importance, &here, &votes_here))
        return NULL;
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (t && !t->tree.room) { /* stopped before it began */
        t->tree.nodes = malloc(sizeof *t->tree.nodes);
        t->tree.room = t->tree.nodes != NULL;
    }
    if (!t || !t->tree.nodes) {
        PyBuffer_Release(&importance);
        return t ? PyErr_NoMemory() : NULL;
    }
    Py_ssize_t leaves = (Py_ssize_t)ef_tree_close(&t->tree);
    Py_ssize_t n = (Py_ssize_t)t->tree.n_nodes;
    Py_ssize_t width = t->tree.task->criterion == EF_MSE ? 1 : t->tree.task->width;
    Py_ssize_t sizes[4] = {2 * n, 4 * n, 4 * n, 2 * leaves * width};
    for (int i = 0; i < 4; i++)
        if (!(parts[i] = PyBytes_FromStringAndSize(NULL, sizes[i])))
            goto fail;
    Py_BEGIN_ALLOW_THREADS
    ef_tree_write(&t->tree, here, votes_here, (uint16_t *)(void *)PyBytes_AsString(parts[0]),
                  (float *)(void *)PyBytes_AsString(parts[1]),
                  (uint32_t *)(void *)PyBytes_AsString(parts[2]),
                  (uint16_t *)(void *)PyBytes_AsString(parts[3]), importance.buf);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&importance);
    return Py_BuildValue("NNNN", parts[0], parts[1], parts[2], parts[3]);
fail:
    PyBuffer_Release(&importance);
    for (int i = 0; i < 4; i++)
        Py_XDECREF(parts[i]);
    return NULL;
}

/* ---- Prediction ---- */

/* pack(feature, threshold, right, wide) -> (bytes of packed nodes, whether one asks for equality) */
static PyObject *kernel_pack(PyObject *self, PyObject *args)
{
    Py_buffer feature, threshold, right;
    int wide;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*i", &feature, &threshold, &right, &wide))
        return NULL;
    size_t n = (size_t)feature.len / sizeof(uint16_t);
    PyObject *nodes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(ef_packed)));
    int equal = 0;
    if (nodes)
        equal = ef_pack(feature.buf, threshold.buf, wide ? NULL : right.buf,
                        wide ? right.buf : NULL, n,
                        (ef_packed *)(void *)PyBytes_AsString(nodes));
    PyBuffer_Release(&feature);
    PyBuffer_Release(&threshold);
    PyBuffer_Release(&right);
    return nodes ? Py_BuildValue("Ni", nodes, equal) : NULL;
}

/* What predict and apply are given: (nodes, equal), roots, votes, X, (offset, step of a row, step of
 * a column, type), and how many rows to take at once. */
enum { NODES, ROOTS, VOTES, X_ROWS, PARTS };

typedef struct {
    Py_buffer part[PARTS];
    ef_forest forest;
    ef_rows rows;
    Py_ssize_t block;
} Walk;

/* For PyArg_ParseTuple's O&: from ((nodes, equal), roots, votes, X, layout). */
static int walk_begin(PyObject *given, void *into)
{
    Walk *w = into;
    PyObject *X;
    long long offset, row_step, column_step;
    int type, equal;
    if (!given) { /* a later argument was wrong */
        for (int i = 0; i < PARTS; i++)
            PyBuffer_Release(w->part + i);
        return 0;
    }
    if (!PyArg_ParseTuple(given, "(y*i)y*y*O(LLLi)", w->part + NODES, &equal, w->part + ROOTS,
                          w->part + VOTES, &X, &offset, &row_step, &column_step, &type))
        return 0;
    if (PyObject_GetBuffer(X, w->part + X_ROWS, PyBUF_STRIDES) != 0) {
        for (int i = 0; i < X_ROWS; i++)
            PyBuffer_Release(w->part + i);
        return 0;
    }
    w->forest.nodes = w->part[NODES].buf;
    w->forest.roots = w->part[ROOTS].buf;
    w->forest.votes = w->part[VOTES].buf;
    w->forest.n_trees = (size_t)w->part[ROOTS].len / sizeof(uint32_t);
    w->forest.equal = equal;
    w->rows.values = (const unsigned char *)w->part[X_ROWS].buf + offset;
    w->rows.row_step = (ptrdiff_t)row_step;
    w->rows.column_step = (ptrdiff_t)column_step;
    w->rows.type = (uint8_t)type;
    /* As many rows at once as the cache holds: trees are fetched again for each block. */
    w->block = 1024;
    while (w->block > 16 && w->block * llabs(row_step) > 512 * 1024)
        w->block /= 2;
    return Py_CLEANUP_SUPPORTED;
}

/* predict(walk, width, n, out, best): the summed votes of n rows into `out` (uint32), the place of
 * the largest into `best` (uint16). */
static PyObject *kernel_predict(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer sums, winners;
    int width;
    Py_ssize_t n;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&inw*w*", walk_begin, &w, &width, &n, &sums, &winners))
        return NULL;
    uint32_t *out = sums.buf;
    uint16_t *best = winners.buf;
    w.forest.width = (size_t)width;
    PyThreadState *thread = n > 16 ? PyEval_SaveThread() : NULL;
    for (Py_ssize_t at = 0; at < n; at += w.block) {
        Py_ssize_t count = n - at < w.block ? n - at : w.block;
        ef_predict(&w.forest, &w.rows, (size_t)at, (size_t)count, out + at * width);
        for (Py_ssize_t i = at; i < at + count; i++) {
            const uint32_t *votes = out + i * width;
            int top = 0;
            for (int k = 1; k < width; k++)
                top = votes[k] > votes[top] ? k : top;
            best[i] = (uint16_t)top;
        }
    }
    if (thread)
        PyEval_RestoreThread(thread);
    walk_begin(NULL, &w);
    PyBuffer_Release(&sums);
    PyBuffer_Release(&winners);
    return Py_NewRef(Py_None);
}

/* apply(walk, n, out): the leaf of each tree that each of n rows reaches, into `out` (uint32), all
 * rows of one tree after all rows of another. */
static PyObject *kernel_apply(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer leaves;
    Py_ssize_t n;
    (void)self;
    if (!PyArg_ParseTuple(args, "O&nw*", walk_begin, &w, &n, &leaves))
        return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    for (Py_ssize_t at = 0; at < n; at += w.block) {
        Py_ssize_t count = n - at < w.block ? n - at : w.block;
        ef_apply(&w.forest, &w.rows, (size_t)at, (size_t)count, (uint32_t *)leaves.buf + at,
                 (size_t)n);
    }
    PyEval_RestoreThread(thread);
    walk_begin(NULL, &w);
    PyBuffer_Release(&leaves);
    return Py_NewRef(Py_None);
}

/* values(sums, step, low, out): predictions of a regression from summed votes, in float32 as
 * Forest.value computes them, into `out` (float64). */
static PyObject *kernel_values(PyObject *self, PyObject *args)
{
    Py_buffer sums, out;
    double step, low;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*ddw*", &sums, &step, &low, &out))
        return NULL;
    const uint32_t *given = sums.buf;
    double *values = out.buf;
    for (Py_ssize_t i = 0; i < sums.len / (Py_ssize_t)sizeof *given; i++) {
        float part = (float)((double)given[i] * step);
        values[i] = (double)(float)((double)part + low);
    }
    PyBuffer_Release(&sums);
    PyBuffer_Release(&out);
    return Py_NewRef(Py_None);
}

/* ---- Learning row by row ---- */

static const char GROVE[] = "edgeforest._kernel.grove";

static void grove_free(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, GROVE));
}

static ef_grove *grove_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, GROVE); }

/* grove(numbers, rows, least, kinds): a grove by its plan; `numbers` are those of ef_plan. */
static PyObject *kernel_grove(PyObject *self, PyObject *args)
{
    ef_plan p;
    Py_buffer kinds;
    int criterion, extra;
    long long least;
    (void)self;
    memset(&p, 0, sizeof p);
    if (!PyArg_ParseTuple(args, "(iiiiiiiiiiiIIIIii)dLy*", &p.m, &p.width, &p.n_trees,
                          &p.max_features, &p.n_bins, &p.max_depth, &p.nodes, &p.races, &p.window,
                          &p.patch, &p.stride, &p.seed, &p.stream, &p.scale, &p.fade, &criterion, &extra,
                          &p.rows, &least, &kinds))
        return NULL;
    p.least = least;
    p.criterion = (uint8_t)criterion;
    p.extra = (uint8_t)extra;
    size_t head = (sizeof(ef_grove) + 15) & ~(size_t)15;
    unsigned char *memory = PyMem_Calloc(1, head + ef_grove_bytes(&p));
    if (!memory) {
        PyBuffer_Release(&kinds);
        return PyErr_NoMemory();
    }
    ef_grove_begin((ef_grove *)(void *)memory, &p, kinds.buf, memory + head);
    PyBuffer_Release(&kinds);
    PyObject *capsule = PyCapsule_New(memory, GROVE, grove_free);
    if (!capsule)
        PyMem_Free(memory);
    return capsule;
}

/* learn(grove, values, labels, first, n, guesses): predict and learn rows first .. first + n;
 * with None for guesses, take them over without learning. */
static PyObject *kernel_learn(PyObject *self, PyObject *args)
{
    PyObject *capsule, *given;
    Py_buffer values, labels, guesses;
    Py_ssize_t first, n;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oy*y*nnO", &capsule, &values, &labels, &first, &n, &given))
        return NULL;
    ef_grove *grove = grove_of(capsule);
    int learns = given != Py_None;
    if (!grove || (learns && PyObject_GetBuffer(given, &guesses, PyBUF_WRITABLE) < 0)) {
        PyBuffer_Release(&values);
        PyBuffer_Release(&labels);
        return NULL;
    }
    const float *rows = (const float *)values.buf + (size_t)first * (size_t)grove->plan.m;
    const uint16_t *targets = (const uint16_t *)labels.buf + first;
    Py_BEGIN_ALLOW_THREADS
    if (learns)
        ef_grove_learn(grove, rows, targets, (size_t)n, (uint32_t *)guesses.buf + first);
    else
        ef_grove_recall(grove, rows, targets, (size_t)n);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&values);
    PyBuffer_Release(&labels);
    if (learns)
        PyBuffer_Release(&guesses);
    return Py_NewRef(Py_None);
}

/* sapling(grove, t): the bytes of a tree's feature, threshold, left, right, votes and gains. */
static PyObject *kernel_sapling(PyObject *self, PyObject *args)
{
    PyObject *capsule, *part[6], *all = NULL;
    void *bytes[6];
    int t, i;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &t))
        return NULL;
    const ef_grove *grove = grove_of(capsule);
    if (!grove)
        return NULL;
    Py_ssize_t n = ef_grove_size(grove, t), width = grove->plan.width ? grove->plan.width : 2;
    Py_ssize_t size[6] = {2 * n, 4 * n, 2 * n, 2 * n, 4 * n * width, 8 * (Py_ssize_t)grove->plan.m};
    for (i = 0; i < 6; i++) {
        part[i] = PyBytes_FromStringAndSize(NULL, size[i]);
        if (!part[i])
            break;
        bytes[i] = PyBytes_AsString(part[i]);
    }
    if (i == 6) {
        ef_grove_tree(grove, t, bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]);
        all = PyTuple_Pack(6, part[0], part[1], part[2], part[3], part[4], part[5]);
    }
    while (i--)
        Py_DECREF(part[i]);
    return all;
}

/* plant(grove, t, feature, threshold, left, right, votes, gains): take over a tree. */
static PyObject *kernel_plant(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    Py_buffer part[6];
    int t;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oiy*y*y*y*y*y*", &capsule, &t, part, part + 1, part + 2, part + 3,
                          part + 4, part + 5))
        return NULL;
    ef_grove *grove = grove_of(capsule);
    if (grove)
        ef_grove_plant(grove, t, (int32_t)(part[0].len / 2), part[0].buf, part[1].buf, part[2].buf,
                       part[3].buf, part[4].buf, part[5].buf);
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(part + i);
    return grove ? Py_NewRef(Py_None) : NULL;
}

/* renew(grove, t): grow a tree anew from the latest rows. */
static PyObject *kernel_renew(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    int t;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &t))
        return NULL;
    ef_grove *grove = grove_of(capsule);
    if (!grove)
        return NULL;
    ef_grove_renew(grove, t);
    return Py_NewRef(Py_None);
}

/* latest(grove): how many rows came, and the bytes of the window: values and labels. */
static PyObject *kernel_latest(PyObject *self, PyObject *capsule)
{
    (void)self;
    const ef_grove *grove = grove_of(capsule);
    if (!grove)
        return NULL;
    Py_ssize_t window = grove->plan.window;
    return Py_BuildValue("Ly#y#", (long long)grove->seen, (const char *)grove->values,
                         window * grove->plan.m * 4, (const char *)grove->labels, window * 2);
}

/* constants(): those that core_pure has too. */
static PyObject *kernel_constants(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("{sisisisisisisisdsisisisi}", "KERNEL", KERNEL, "EXACT_BELOW", EF_EXACT_BELOW, "GROUP_ROWS", EF_GROUP_ROWS, "LOOK_ROWS", EF_LOOK_ROWS,
                         "PAPER_BATCH", EF_PAPER_BATCH, "RACE_ROWS", EF_RACE_ROWS, "LEAST_ROWS",
                         EF_LEAST_ROWS, "TOLERANCE_IMPURITY", EF_TOLERANCE_IMPURITY, "LEAF",
                         EF_LEAF, "MISSING_LEFT", EF_MISSING_LEFT, "EQUAL", EF_EQUAL, "LEVELS",
                         EF_LEVELS);
}

static PyMethodDef methods[] = {
    {"bounds", kernel_bounds, METH_VARARGS, "The bounds of columns of numbers."},
    {"encode", kernel_encode, METH_VARARGS, "The codes of columns of numbers."},
    {"classes", kernel_classes, METH_VARARGS, "Labels that are whole numbers."},
    {"targets", kernel_targets, METH_VARARGS, "Levels of a regression's targets."},
    {"fill", kernel_fill, METH_VARARGS, "Random integers, as Rng.fill gives them."},
    {"task", kernel_task, METH_VARARGS, "What is the same for every tree of a forest."},
    {"tree", kernel_tree, METH_O, "Room to grow trees in."},
    {"begin", kernel_begin, METH_VARARGS, "Begin a tree."},
    {"grow", kernel_grow, METH_VARARGS, "Go on growing a tree."},
    {"spent", kernel_spent, METH_O, "What a tree has cost."},
    {"close", kernel_close, METH_VARARGS, "Finish a tree and give its arrays."},
    {"pack", kernel_pack, METH_VARARGS, "Nodes as prediction likes them."},
    {"predict", kernel_predict, METH_VARARGS, "The summed votes of rows."},
    {"apply", kernel_apply, METH_VARARGS, "The leaves that rows reach."},
    {"values", kernel_values, METH_VARARGS, "The predictions of a regression."},
    {"grove", kernel_grove, METH_VARARGS, "Trees that learn row by row."},
    {"learn", kernel_learn, METH_VARARGS, "Predict and learn rows."},
    {"sapling", kernel_sapling, METH_VARARGS, "The nodes of a tree that learns."},
    {"plant", kernel_plant, METH_VARARGS, "Take over a tree."},
    {"renew", kernel_renew, METH_VARARGS, "Grow a tree anew."},
    {"latest", kernel_latest, METH_O, "The latest rows."},
    {"constants", kernel_constants, METH_NOARGS, "The kernel's constants."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "edgeforest._kernel", "The C kernel.", -1, methods, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }
