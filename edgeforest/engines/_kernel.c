/* The Python binding of firmware/kernel: buffers in, arrays out. Used by core_native.py alone.
 *
 * Stable ABI of Python 3.11. The interpreter's lock is released while trees grow and rows are
 * read; signals are looked at about twenty times a second, so that Ctrl-C works.
 *
 * Nothing here trusts its caller. Every buffer is held while C uses it and measured before, every
 * number is in range or refused with a ValueError, and what decides where memory is read or written
 * (labels, nodes, features) is checked in a copy that Python cannot alter.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../firmware/kernel/edgeforest.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <time.h>
#endif

enum { KERNEL = 4 }; /* core_native.py asks for it: another number where the two do not fit */

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

/* ---- What is given is looked at ---- */

static int refuse(const char *sentence)
{
    PyErr_SetString(PyExc_ValueError, sentence);
    return -1;
}

/* A number that does not fit, or a buffer that is not in one piece, is a ValueError like others. */
static void as_value_error(void)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        refuse("a number is too large, or negative where it must not be");
    else if (PyErr_ExceptionMatches(PyExc_BufferError))
        refuse("a buffer must lie in one piece, and be there to be read (or written)");
}

/* PyArg_ParseTuple, which says ValueError or TypeError. */
static int parse(PyObject *args, const char *format, ...)
{
    va_list places;
    va_start(places, format);
    int done = PyArg_VaParse(args, format, places);
    va_end(places);
    if (!done)
        as_value_error();
    return done;
}

static int view_of(PyObject *object, Py_buffer *view, int flags)
{
    int done = PyObject_GetBuffer(object, view, flags);
    if (done < 0)
        as_value_error();
    return done;
}

/* A product of sizes; -1 if there is no such size. */
static Py_ssize_t product(Py_ssize_t a, Py_ssize_t b)
{
    return a < 0 || b < 0 || (b && a > PY_SSIZE_T_MAX / b) ? -1 : a * b;
}

/* Whether a buffer has room for `count` items of a size that is a power of two, and lies as C wants
 * such items to lie; else that is said. */
static int holds(const Py_buffer *view, const char *what, Py_ssize_t count, Py_ssize_t size)
{
    Py_ssize_t bytes = product(count, size);
    if (bytes < 0 || view->len < bytes) {
        PyErr_Format(PyExc_ValueError, "%s must hold %zd items of %zd bytes, got %zd bytes", what,
                     count, size, view->len);
        return 0;
    }
    if (view->len && (uintptr_t)view->buf % (uintptr_t)size) {
        PyErr_Format(PyExc_ValueError, "%s must lie at a multiple of %zd bytes", what, size);
        return 0;
    }
    return 1;
}

static int in_range(const char *what, long long value, long long low, long long high)
{
    if (low <= value && value <= high)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s must be from %lld to %lld, got %lld", what, low, high,
                 value);
    return 0;
}

/* The bytes that a view may look at, from its first item: low <= place < high. */
typedef struct {
    int64_t low, high;
} Extent;

static Extent extent_of(const Py_buffer *view)
{
    Extent e = {0, view->itemsize};
    if (!view->shape || !view->strides) {
        e.high = view->len;
        return e;
    }
    for (int i = 0; i < view->ndim; i++) {
        int64_t span = (int64_t)(view->shape[i] - 1) * view->strides[i];
        if (view->shape[i] < 1) {
            e.low = e.high = 0;
            break;
        }
        e.low += span < 0 ? span : 0;
        e.high += span > 0 ? span : 0;
    }
    return e;
}

/* Whether `count` items of `size` bytes lie within, the first at `offset`, then `step` apart. */
static int within(Extent e, int64_t offset, int64_t step, int64_t count, int64_t size)
{
    if (offset < e.low || e.high - e.low < size || offset > e.high - size)
        return 0;
    if (count < 2 || step == 0)
        return 1;
    if (step < -PTRDIFF_MAX)
        return 0;
    return count - 1 <= (step > 0 ? (e.high - size - offset) / step : (offset - e.low) / -step);
}

static const int64_t SIZES[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8}; /* by ef_type */

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

/* Look where one column of so many rows lies. */
static int column_place(Columns *c, ef_column *column, const int64_t *place, int64_t rows)
{
    if (!in_range("the buffer of a column", place[0], 0, c->n_views - 1) ||
        !in_range("the type of a column", place[3], EF_CODES, EF_F64) ||
        !in_range("the highest code of a column", place[4], 0, EF_BOUNDS - 1) ||
        !in_range("the categories of a column", place[5], 0, EF_BOUNDS - 1))
        return -1;
    const Py_buffer *view = c->views + place[0];
    if (!within(extent_of(view), place[1], place[2], rows, SIZES[place[3]]))
        return refuse("a column lies outside of its buffer; did it change while it was read?");
    column->values = (const unsigned char *)view->buf + place[1];
    column->step = (ptrdiff_t)place[2];
    column->type = (uint8_t)place[3];
    column->last = (int32_t)place[4];
    column->categories = (uint8_t)place[5];
    return 0;
}

/* Copy the bounds of all columns, and make the grids of those that are numbers. */
static int columns_bound(Columns *c, PyObject *bounds)
{
    Py_buffer given;
    Py_ssize_t count = product(c->m, EF_BOUNDS), numbers = 0;
    if (view_of(bounds, &given, PyBUF_SIMPLE) < 0)
        return -1;
    if (!holds(&given, "bounds", count, sizeof(float))) {
        PyBuffer_Release(&given);
        return -1;
    }
    for (Py_ssize_t f = 0; f < c->m; f++)
        numbers += c->columns[f].type != EF_CODES;
    c->bounds = PyMem_Malloc((size_t)count * sizeof(float) + 1);
    c->grids = PyMem_Malloc((size_t)(numbers ? c->m : 0) * (EF_GRID + 2) + 1);
    if (c->bounds)
        memcpy(c->bounds, given.buf, (size_t)count * sizeof(float));
    PyBuffer_Release(&given);
    if (!c->bounds || !c->grids) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t f = 0; f < c->m; f++) {
        ef_column *column = c->columns + f;
        if (column->categories)
            continue;
        column->bounds = c->bounds + f * EF_BOUNDS;
        const char *wrong = ef_column_wrong(column);
        if (wrong)
            return refuse(wrong);
        if (column->type != EF_CODES)
            ef_grid(column, c->grids + f * (EF_GRID + 2));
    }
    return 0;
}

/* Columns of so many rows from a list of buffers, where each column lies in them, and bounds (or
 * None). Columns of codes may lie nowhere yet, unless `codes` are wanted. The buffers are held until
 * columns_free. */
static int columns_make(Columns *c, PyObject *buffers, PyObject *layout, PyObject *bounds,
                        int64_t rows, int codes)
{
    Py_buffer where;
    memset(c, 0, sizeof *c);
    if (!in_range("rows", rows, 1, EF_MASK) || view_of(layout, &where, PyBUF_SIMPLE) < 0)
        return -1;
    PyObject *all = PyList_AsTuple(buffers); /* a list may change while a buffer is asked for */
    Py_ssize_t n = all ? PyTuple_Size(all) : 0, entry = LAYOUT * (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t m = where.len / entry;
    if (!all || !in_range("columns", m, 1, EF_FEATURE) ||
        !holds(&where, "the layout", m * LAYOUT, sizeof(int64_t)))
        goto fail;
    c->views = PyMem_Calloc((size_t)n + 1, sizeof *c->views);
    c->columns = PyMem_Calloc((size_t)m, sizeof *c->columns);
    if (!c->views || !c->columns) {
        PyErr_NoMemory();
        goto fail;
    }
    for (; c->n_views < n; c->n_views++)
        if (view_of(PyTuple_GetItem(all, c->n_views), c->views + c->n_views, PyBUF_STRIDES) < 0)
            goto fail;
    c->m = m;
    for (Py_ssize_t f = 0; f < m; f++) {
        int64_t place[LAYOUT]; /* a copy */
        memcpy(place, (const char *)where.buf + f * entry, sizeof place);
        if ((codes || place[3] != EF_CODES) && column_place(c, c->columns + f, place, rows) < 0)
            goto fail;
    }
    if (bounds != Py_None && columns_bound(c, bounds) < 0)
        goto fail;
    Py_DECREF(all);
    PyBuffer_Release(&where);
    return 0;
fail:
    Py_XDECREF(all);
    PyBuffer_Release(&where);
    columns_free(c);
    return -1;
}

/* Bounds of every column from these rows, or the first n; whether all rows are among the data. */
static int make_bounds(const Columns *c, const uint32_t *rows, Py_ssize_t count, Py_ssize_t n,
                       uint32_t *all, float *bounds, int32_t *last)
{
    float *values = (float *)(void *)(all + count), *spare = values + count;
    for (Py_ssize_t i = 0; i < count; i++) {
        all[i] = rows ? rows[i] : (uint32_t)i;
        if (all[i] >= n)
            return 0;
    }
    for (Py_ssize_t f = 0; f < c->m; f++) {
        if (c->columns[f].type == EF_CODES)
            continue;
        ef_floats(c->columns + f, all, (size_t)count, values);
        last[f] = ef_make_bounds(values, (size_t)count, spare, bounds + f * EF_BOUNDS) - 1;
    }
    return 1;
}

/* bounds(buffers, layout, rows, n, out, last): the bounds of every column. `rows` is a sample of
 * the n rows (uint32), or None for all. */
static PyObject *kernel_bounds(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *sample, *result = NULL;
    Py_buffer out, last, rows;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!parse(args, "O!OOnw*w*", &PyList_Type, &buffers, &layout, &sample, &n, &out, &last))
        return NULL;
    memset(&rows, 0, sizeof rows);
    uint32_t *all = NULL;
    int known = 0;
    if (columns_make(&c, buffers, layout, Py_None, n, 0) < 0 ||
        !holds(&out, "bounds", c.m * EF_BOUNDS, sizeof(float)) ||
        !holds(&last, "the highest codes", c.m, sizeof(int32_t)) ||
        (sample != Py_None && view_of(sample, &rows, PyBUF_SIMPLE) < 0) ||
        (sample != Py_None && !holds(&rows, "a sample of rows", 0, sizeof(uint32_t))))
        goto done;
    Py_ssize_t count = sample == Py_None ? n : rows.len / (Py_ssize_t)sizeof(uint32_t);
    Py_ssize_t bytes = product(count, sizeof(uint32_t) + 2 * sizeof(float));
    all = bytes < 0 ? NULL : PyMem_Malloc((size_t)bytes + 1);
    if (!all) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    known = make_bounds(&c, rows.buf, count, n, all, out.buf, last.buf);
    Py_END_ALLOW_THREADS
    if (known)
        result = Py_NewRef(Py_None);
    else
        refuse("a sample of rows must be among the data");
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
    PyObject *buffers, *layout, *bounds, *result = NULL;
    Py_buffer codes;
    Py_ssize_t first, n, infinite = -1;
    Columns c;
    (void)self;
    if (!parse(args, "O!OOnnw*", &PyList_Type, &buffers, &layout, &bounds, &first, &n, &codes))
        return NULL;
    memset(&c, 0, sizeof c);
    if (!in_range("the first row", first, 0, EF_MASK) || !in_range("rows", n, 0, EF_MASK) ||
        columns_make(&c, buffers, layout, bounds, (int64_t)first + n, 0) < 0 ||
        !holds(&codes, "codes", product(first + n, c.m), 1))
        goto done;
    for (Py_ssize_t f = 0; f < c.m; f++)
        if (c.columns[f].type != EF_CODES && !c.columns[f].bounds) {
            refuse("a column of numbers needs its bounds");
            goto done;
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
    result = infinite < 0 ? Py_NewRef(Py_None) : PyLong_FromSsize_t(infinite);
done:
    columns_free(&c);
    PyBuffer_Release(&codes);
    return result;
}

enum { SPREAD = 65536, CHANGED = -1, TOO_MANY = -2 };

/* Number the distinct values of a column in their order, from 1 on in `place`, by how far they are
 * above the lowest, and write the number of each row less 1. Returns how many there are. Each value
 * is read three times: one that has changed meanwhile is noticed before it is used as a place. */
static int number_classes(const ef_column *column, Py_ssize_t n, uint16_t *place, int64_t *low,
                          uint16_t *codes)
{
    int64_t high = INT64_MIN;
    int classes = 0;
    *low = INT64_MAX;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t v = ef_whole(column, (uint32_t)i);
        *low = v < *low ? v : *low;
        high = v > high ? v : high;
    }
    uint64_t spread = (uint64_t)high - (uint64_t)*low, above;
    if (spread >= SPREAD)
        return TOO_MANY;
    for (Py_ssize_t i = 0; i < n; i++) {
        above = (uint64_t)ef_whole(column, (uint32_t)i) - (uint64_t)*low;
        if (above > spread)
            return CHANGED;
        place[above] = 1;
    }
    for (uint64_t v = 0; v <= spread; v++)
        if (place[v]) {
            if (classes == EF_CLASSES)
                return TOO_MANY;
            place[v] = (uint16_t)++classes;
        }
    for (Py_ssize_t i = 0; i < n; i++) {
        above = (uint64_t)ef_whole(column, (uint32_t)i) - (uint64_t)*low;
        if (above > spread || !place[above])
            return CHANGED;
        codes[i] = (uint16_t)(place[above] - 1);
    }
    return classes;
}

/* classes(buffer, layout, n, codes) -> the distinct whole numbers of a column in order, with each
 * row's place among them in `codes` (uint16); None if they spread too far or are too many. */
static PyObject *kernel_classes(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *result = NULL;
    Py_buffer codes;
    Py_ssize_t n;
    int64_t low = 0;
    int classes = 0;
    uint16_t *place = NULL;
    Columns c;
    (void)self;
    if (!parse(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &codes))
        return NULL;
    if (columns_make(&c, buffers, layout, Py_None, n, 1) < 0 ||
        !in_range("the type of labels", c.columns->type, EF_CODES, EF_I64) ||
        !holds(&codes, "codes", n, sizeof(uint16_t)))
        goto done;
    place = PyMem_Calloc(SPREAD, sizeof *place);
    if (!place) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    classes = number_classes(c.columns, n, place, &low, codes.buf);
    Py_END_ALLOW_THREADS
    if (classes == CHANGED) {
        refuse("the labels changed while they were read; give a copy that nobody alters");
        goto done;
    }
    if (classes == TOO_MANY) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    result = PyList_New(0);
    for (int v = 0; result && v < SPREAD; v++) {
        if (!place[v])
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
    if (!parse(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &levels))
        return NULL;
    if (columns_make(&c, buffers, layout, Py_None, n, 1) == 0 &&
        holds(&levels, "levels", n, sizeof(uint16_t))) {
        double low = 0, high = 0;
        if (ef_levels(c.columns, (size_t)n, levels.buf, &low, &high))
            result = Py_BuildValue("dd", low, high - low);
        else
            result = Py_NewRef(Py_None);
    }
    columns_free(&c);
    PyBuffer_Release(&levels);
    return result;
}

/* fill(z, w, n, out): Rng.fill; returns the generator's new state. */
static PyObject *kernel_fill(PyObject *self, PyObject *args)
{
    ef_rng rng;
    long long z, w, n;
    Py_buffer out;
    PyObject *result = NULL;
    (void)self;
    if (!parse(args, "LLLw*", &z, &w, &n, &out))
        return NULL;
    /* States beyond these repeat themselves for ever, and no number may be low enough. */
    if (in_range("z", z, 1, 830275582) && in_range("w", w, 1, 855244798) &&
        in_range("n", n, 1, EF_MASK) && holds(&out, "out", 0, sizeof(uint32_t))) {
        rng.z = (uint32_t)z;
        rng.w = (uint32_t)w;
        ef_rng_fill(&rng, out.buf, (size_t)out.len / sizeof(uint32_t), (uint32_t)n);
        result = Py_BuildValue("II", (unsigned)rng.z, (unsigned)rng.w);
    }
    PyBuffer_Release(&out);
    return result;
}

/* ---- Tasks and trees ---- */

typedef struct {
    ef_task task;
    Columns columns;
    Py_buffer weights, patch; /* which the kernel bounds whenever it looks at them */
    void *y;                  /* copies, of which it does not */
    uint16_t *usable;
} Task;

static const char TASK[] = "edgeforest._kernel.task", TREE[] = "edgeforest._kernel.tree";

static void task_free(PyObject *capsule)
{
    Task *t = PyCapsule_GetPointer(capsule, TASK);
    columns_free(&t->columns);
    if (t->weights.obj)
        PyBuffer_Release(&t->weights);
    if (t->patch.obj)
        PyBuffer_Release(&t->patch);
    PyMem_Free(t->y);
    PyMem_Free(t->usable);
    PyMem_Free(t);
}

/* The view of `count` numbers of 32 bits, if any are given. */
static int optional(PyObject *object, Py_buffer *view, const char *what, Py_ssize_t count)
{
    if (object == Py_None)
        return 0;
    if (view_of(object, view, PyBUF_SIMPLE) < 0)
        return -1;
    return holds(view, what, count, sizeof(uint32_t)) ? 0 : -1;
}

/* A copy of the first `bytes` of a buffer, all of it if that is -1; `bytes` becomes its size. */
static void *copy_of(PyObject *object, const char *what, Py_ssize_t *bytes)
{
    Py_buffer view;
    void *copy = NULL;
    if (view_of(object, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (*bytes < 0)
        *bytes = view.len;
    if (holds(&view, what, *bytes, 1)) {
        copy = PyMem_Malloc((size_t)*bytes + 1);
        if (copy)
            memcpy(copy, view.buf, (size_t)*bytes);
        else
            PyErr_NoMemory();
    }
    PyBuffer_Release(&view);
    return copy;
}

/* What a task holds beside its columns: labels (of 8 or of 16 bits), and which rows and features
 * are drawn. */
static int task_hold(Task *t, int wide, PyObject *usable, PyObject *y, PyObject *weights,
                     PyObject *patch)
{
    ef_task *e = &t->task;
    Py_ssize_t bytes = product((Py_ssize_t)e->n, wide ? 2 : 1), some = -1;
    t->y = copy_of(y, "y", &bytes);
    t->usable = t->y ? copy_of(usable, "features", &some) : NULL;
    if (!t->usable || optional(weights, &t->weights, "weights", (Py_ssize_t)e->pool + 1) < 0 ||
        optional(patch, &t->patch, "the patch", (Py_ssize_t)e->pool) < 0)
        return -1;
    some /= (Py_ssize_t)sizeof *t->usable;
    e->y8 = wide ? NULL : t->y;
    e->y16 = wide ? t->y : NULL;
    e->usable = t->usable;
    e->n_usable = (int32_t)(some <= EF_FEATURE ? some : EF_FEATURE + 1);
    e->weights = t->weights.obj ? t->weights.buf : NULL;
    e->patch = t->patch.obj ? t->patch.buf : NULL;
    return 0;
}

/* The numbers of a task; those that C would cut off are looked at before. */
static int task_numbers(ef_task *e, PyObject *whole, PyObject *real, int *wide)
{
    long long n, pool, sample_size, batch, max_depth, leaf, split, leaf_nodes, seed, scale, mask;
    int criterion, splitter, extra, bootstrap, raw;
    if (!parse(whole, "LLLLLLLLiiiLLLiiiiii", &n, &pool, &sample_size, &batch, &max_depth, &leaf,
               &split, &leaf_nodes, &e->max_features, &e->n_bins, &e->width, &seed, &scale, &mask,
               &criterion, &splitter, &extra, &bootstrap, &raw, wide) ||
        !parse(real, "dddd", &e->min_impurity_decrease, &e->z, &e->tolerance, &e->confidence))
        return -1;
    if (!in_range("rows", n, 1, EF_MASK) || !in_range("the pool", pool, 1, EF_MASK) ||
        !in_range("seed", seed, 0, UINT32_MAX) || !in_range("scale", scale, 1, EF_LEVELS) ||
        !in_range("mask", mask, EF_MASK, EF_MASK) || !in_range("criterion", criterion, 0, EF_MSE) ||
        !in_range("splitter", splitter, 0, EF_EXACT))
        return -1;
    e->n = n;
    e->pool = pool;
    e->sample_size = sample_size;
    e->batch = batch;
    e->max_depth = max_depth;
    e->min_samples_leaf = leaf;
    e->min_samples_split = split;
    e->max_leaf_nodes = leaf_nodes;
    e->seed = (uint32_t)seed;
    e->scale = (uint32_t)scale;
    e->mask = (uint32_t)mask;
    e->criterion = (uint8_t)criterion;
    e->splitter = (uint8_t)splitter;
    e->extra = extra != 0;
    e->bootstrap = bootstrap != 0;
    e->raw = raw != 0;
    return 0;
}

/* task(columns, usable, y, weights, patch, whole, real) -> (task, bytes of a workspace).
 * `columns` is (buffers, layout, bounds); `whole` and `real` are the numbers of ef_task. */
static PyObject *kernel_task(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *bounds, *usable, *y, *weights, *patch, *whole, *real;
    int wide;
    (void)self;
    if (!parse(args, "(O!OO)OOOOO!O!", &PyList_Type, &buffers, &layout, &bounds, &usable, &y,
               &weights, &patch, &PyTuple_Type, &whole, &PyTuple_Type, &real))
        return NULL;
    Task *t = PyMem_Calloc(1, sizeof *t);
    if (!t)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(t, TASK, task_free), *bytes = NULL;
    if (!capsule) {
        PyMem_Free(t);
        return NULL;
    }
    ef_task *e = &t->task;
    if (task_numbers(e, whole, real, &wide) < 0 ||
        columns_make(&t->columns, buffers, layout, bounds, e->n, 1) < 0 ||
        task_hold(t, wide, usable, y, weights, patch) < 0)
        goto done;
    e->columns = t->columns.columns;
    const char *wrong = ef_task_wrong(e, (int32_t)t->columns.m);
    if (wrong) {
        refuse(wrong);
        goto done;
    }
    e->row_major = t->columns.m > 1;
    for (Py_ssize_t f = 0; f < t->columns.m; f++) {
        const ef_column *c = e->columns + f;
        if (c->type != EF_CODES || c->step != e->columns->step || c->step < t->columns.m)
            e->row_major = 0;
    }
    bytes = PyLong_FromSize_t(ef_workspace_bytes(e));
done:
    if (bytes)
        return Py_BuildValue("NN", capsule, bytes);
    Py_DECREF(capsule);
    return NULL;
}

typedef struct {
    ef_tree tree;
    PyObject *task; /* kept alive */
    void *workspace;
    const volatile uint8_t *stop; /* set by another thread */
    double until, looked;         /* seconds; until < 0: no limit */
    PyThreadState *thread;
    int interrupted;
    int busy, closed; /* in the hands of a thread; nothing to be grown */
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

/* The tree of a capsule, if no other thread (or a handler of a signal) has it in hand. */
static Tree *tree_of(PyObject *capsule)
{
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (t && t->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this tree is being grown by another thread");
        return NULL;
    }
    return t;
}

/* begin(tree, index, insertions, nodes): insertions and nodes it may use, -1 for any number. */
static PyObject *kernel_begin(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long index, insertions, nodes;
    (void)self;
    if (!parse(args, "OLLL", &capsule, &index, &insertions, &nodes))
        return NULL;
    Tree *t = tree_of(capsule);
    if (!t || !in_range("the tree's number", index, 0, UINT32_MAX - 1) ||
        !in_range("insertions", insertions, -1, 1LL << 62) ||
        !in_range("nodes (or -1)", nodes ? nodes : -2, -1, INT64_MAX))
        return NULL;
    const Task *task = PyCapsule_GetPointer(t->task, TASK);
    ef_node *old = t->tree.nodes;
    int64_t room = t->tree.room;
    ef_tree_begin(&t->tree, &task->task, (uint32_t)index, t->workspace);
    t->tree.nodes = old;
    t->tree.room = room;
    t->tree.left = insertions;
    t->tree.most = nodes;
    t->interrupted = t->closed = 0;
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
    if (!parse(args, "OLdy*", &capsule, &insertions, &seconds, &stop))
        return NULL;
    Tree *t = tree_of(capsule);
    if (!t || !in_range("insertions", insertions, 0, 1LL << 62) || !holds(&stop, "stop", 1, 1) ||
        ((!t->tree.task || t->closed) && refuse("begin a tree before it is grown"))) {
        PyBuffer_Release(&stop);
        return NULL;
    }
    t->busy = 1;
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
        ef_node *nodes = NULL;
        if ((uint64_t)room < SIZE_MAX / sizeof *nodes)
            nodes = realloc(t->tree.nodes, (size_t)room * sizeof *nodes);
        if (!nodes) {
            starved = 1;
            break;
        }
        t->tree.nodes = nodes;
        t->tree.room = room;
    }
    PyEval_RestoreThread(t->thread);
    t->stop = NULL;
    t->busy = 0;
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

/* The closed tree, as bytes of its parts; NULL if there is no memory. */
static PyObject *write_tree(Tree *t, uint32_t here, uint32_t votes_here, double *importance)
{
    PyObject *parts[4] = {NULL, NULL, NULL, NULL};
    Py_ssize_t leaves = (Py_ssize_t)ef_tree_close(&t->tree), n = (Py_ssize_t)t->tree.n_nodes;
    Py_ssize_t width = t->tree.task->criterion == EF_MSE ? 1 : t->tree.task->width;
    Py_ssize_t sizes[4] = {2 * n, 4 * n, 4 * n, product(2 * leaves, width)};
    if (!in_range("nodes", (long long)here + n, 0, UINT32_MAX) ||
        !in_range("votes", (long long)votes_here + leaves, 0, UINT32_MAX))
        return NULL;
    for (int i = 0; i < 4; i++)
        if (sizes[i] < 0 || !(parts[i] = PyBytes_FromStringAndSize(NULL, sizes[i])))
            goto fail;
    t->busy = t->closed = 1;
    Py_BEGIN_ALLOW_THREADS
    ef_tree_write(&t->tree, here, votes_here, (uint16_t *)(void *)PyBytes_AsString(parts[0]),
                  (float *)(void *)PyBytes_AsString(parts[1]),
                  (uint32_t *)(void *)PyBytes_AsString(parts[2]),
                  (uint16_t *)(void *)PyBytes_AsString(parts[3]), importance);
    Py_END_ALLOW_THREADS
    t->busy = 0;
    return Py_BuildValue("NNNN", parts[0], parts[1], parts[2], parts[3]);
fail:
    for (int i = 0; i < 4; i++)
        Py_XDECREF(parts[i]);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

/* close(tree, importance, nodes before, votes before) -> bytes of feature, threshold, right (as
 * uint32) and votes, in preorder. */
static PyObject *kernel_close(PyObject *self, PyObject *args)
{
    PyObject *capsule, *result = NULL;
    Py_buffer importance;
    long long here, votes_here;
    (void)self;
    if (!parse(args, "Ow*LL", &capsule, &importance, &here, &votes_here))
        return NULL;
    Tree *t = tree_of(capsule);
    const Task *task = t ? PyCapsule_GetPointer(t->task, TASK) : NULL;
    if (!task || !in_range("nodes before", here, 0, UINT32_MAX) ||
        !in_range("votes before", votes_here, 0, UINT32_MAX) ||
        !holds(&importance, "importance", task->columns.m, sizeof(double)))
        goto done;
    if (!t->tree.task || t->closed) {
        refuse("begin a tree before it is closed");
        goto done;
    }
    if (!t->tree.room) { /* stopped before it began */
        t->tree.nodes = malloc(sizeof *t->tree.nodes);
        t->tree.room = t->tree.nodes != NULL;
    }
    if (t->tree.nodes)
        result = write_tree(t, (uint32_t)here, (uint32_t)votes_here, importance.buf);
    else
        PyErr_NoMemory();
done:
    PyBuffer_Release(&importance);
    return result;
}

/* ---- Prediction ---- */

/* A forest whose nodes and roots were looked at, so that every way down ends at a leaf. */
typedef struct {
    ef_packed *nodes;
    uint32_t *roots;
    size_t n_trees;
    uint32_t features, leaves; /* that a row must have; that must have votes */
    int equal;
} Packed;

static const char PACKED[] = "edgeforest._kernel.packed";

static void packed_free(PyObject *capsule)
{
    Packed *p = PyCapsule_GetPointer(capsule, PACKED);
    PyMem_Free(p->nodes);
    PyMem_Free(p->roots);
    PyMem_Free(p);
}

enum { FEATURE, THRESHOLD, RIGHT, ROOTS, TABLES };

/* Fill in a forest from its arrays, which are looked at. */
static int pack_forest(Packed *p, const Py_buffer *tables, int wide)
{
    Py_ssize_t n = tables[FEATURE].len / 2, trees = tables[ROOTS].len / 4;
    if (!in_range("nodes", n, 1, UINT32_MAX - 1) || !holds(tables + FEATURE, "feature", n, 2) ||
        !holds(tables + THRESHOLD, "threshold", n, 4) ||
        !holds(tables + RIGHT, "right", n, wide ? 4 : 2) ||
        !holds(tables + ROOTS, "roots", trees, 4))
        return -1;
    Py_ssize_t bytes = product(n, sizeof *p->nodes);
    p->nodes = bytes < 0 ? NULL : PyMem_Malloc((size_t)bytes);
    p->roots = PyMem_Malloc((size_t)tables[ROOTS].len + 1);
    if (!p->nodes || !p->roots) {
        PyErr_NoMemory();
        return -1;
    }
    const void *right = tables[RIGHT].buf;
    p->n_trees = (size_t)trees;
    p->equal = ef_pack(tables[FEATURE].buf, tables[THRESHOLD].buf, wide ? NULL : right,
                       wide ? right : NULL, (size_t)n, p->nodes, &p->features, &p->leaves);
    if (p->equal < 0)
        return refuse("a child must be one of the nodes after its parent");
    memcpy(p->roots, tables[ROOTS].buf, p->n_trees * sizeof *p->roots);
    for (size_t i = 0; i < p->n_trees; i++)
        if (p->roots[i] >= (size_t)n)
            return refuse("a root must be one of the nodes");
    return 0;
}

/* pack(feature, threshold, right, roots, wide) -> the forest as prediction likes it. */
static PyObject *kernel_pack(PyObject *self, PyObject *args)
{
    Py_buffer tables[TABLES];
    PyObject *capsule = NULL;
    int wide;
    (void)self;
    if (!parse(args, "y*y*y*y*i", tables, tables + 1, tables + 2, tables + 3, &wide))
        return NULL;
    Packed *p = PyMem_Calloc(1, sizeof *p);
    if (p)
        capsule = PyCapsule_New(p, PACKED, packed_free);
    else
        PyErr_NoMemory();
    if (p && !capsule)
        PyMem_Free(p);
    if (capsule && pack_forest(p, tables, wide) < 0)
        Py_CLEAR(capsule);
    for (int i = 0; i < TABLES; i++)
        PyBuffer_Release(tables + i);
    return capsule;
}

/* What predict and apply are given: a packed forest, votes, X, (offset, step of a row, step of a
 * column, type). */
enum { VOTES, X_ROWS, PARTS };

typedef struct {
    PyObject *packed;
    Py_buffer part[PARTS];
    ef_forest forest;
    ef_rows rows;
    size_t features, leaves;
    int64_t offset;
    Py_ssize_t block; /* rows to take at once */
} Walk;

static void walk_end(Walk *w)
{
    for (int i = 0; i < PARTS; i++)
        PyBuffer_Release(w->part + i);
    Py_CLEAR(w->packed);
}

/* For PyArg_ParseTuple's O&: from (packed, votes, X, layout). */
static int walk_begin(PyObject *given, void *into)
{
    Walk *w = into;
    PyObject *X, *capsule;
    long long offset, row_step, column_step;
    int type;
    if (!given) { /* a later argument was wrong */
        walk_end(w);
        return 0;
    }
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a walk must be a tuple");
        return 0;
    }
    if (!parse(given, "Oy*O(LLLi)", &capsule, w->part + VOTES, &X, &offset, &row_step, &column_step,
               &type))
        return 0;
    const Packed *p = PyCapsule_GetPointer(capsule, PACKED);
    if (!p || !in_range("the type of a row", type, EF_CODES, EF_F64) ||
        view_of(X, w->part + X_ROWS, PyBUF_STRIDES) != 0) {
        PyBuffer_Release(w->part + VOTES);
        return 0;
    }
    w->packed = Py_NewRef(capsule);
    w->forest.nodes = p->nodes;
    w->forest.roots = p->roots;
    w->forest.votes = w->part[VOTES].buf;
    w->forest.n_trees = p->n_trees;
    w->forest.width = 0;
    w->forest.equal = p->equal;
    w->features = p->features;
    w->leaves = p->leaves;
    w->offset = offset;
    w->rows.values = w->part[X_ROWS].buf;
    w->rows.row_step = (ptrdiff_t)row_step;
    w->rows.column_step = (ptrdiff_t)column_step;
    w->rows.type = (uint8_t)type;
    return Py_CLEANUP_SUPPORTED;
}

/* Whether n rows lie in X with all features that nodes ask for. Where there is one, makes the walk
 * ready. */
static int walk_fits(Walk *w, Py_ssize_t n)
{
    Extent e = extent_of(w->part + X_ROWS);
    int64_t step = w->rows.row_step, columns = (int64_t)w->features, size = SIZES[w->rows.type];
    if (!in_range("rows", n, 0, PY_SSIZE_T_MAX))
        return 0;
    if (n && (!within(e, w->offset, step, n, size) ||
              !within(e, w->offset, w->rows.column_step, columns, size) ||
              !within(e, w->offset + (n - 1) * step, w->rows.column_step, columns, size))) {
        refuse("the rows lie outside of their buffer; did they change while they were read?");
        return 0;
    }
    if (n)
        w->rows.values += w->offset;
    /* As many rows at once as the cache holds: trees are fetched again for each block. */
    w->block = 1024;
    while (n > 16 && w->block > 16 && w->block * (step < 0 ? -step : step) > 512 * 1024)
        w->block /= 2;
    return 1;
}

/* predict(walk, width, n, out, best): the summed votes of n rows into `out` (uint32), the place of
 * the largest into `best` (uint16). */
static PyObject *kernel_predict(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer sums, winners;
    int width;
    Py_ssize_t n;
    PyObject *result = NULL;
    (void)self;
    if (!parse(args, "O&inw*w*", walk_begin, &w, &width, &n, &sums, &winners))
        return NULL;
    if (!walk_fits(&w, n) || !in_range("classes", width, 1, EF_LEVELS) ||
        !holds(w.part + VOTES, "votes", product((Py_ssize_t)w.leaves, width), 2) ||
        !holds(&sums, "sums", product(n, width), 4) || !holds(&winners, "winners", n, 2))
        goto done;
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
    result = Py_NewRef(Py_None);
done:
    walk_end(&w);
    PyBuffer_Release(&sums);
    PyBuffer_Release(&winners);
    return result;
}

/* apply(walk, n, out): the leaf of each tree that each of n rows reaches, into `out` (uint32), all
 * rows of one tree after all rows of another. */
static PyObject *kernel_apply(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer leaves;
    Py_ssize_t n;
    PyObject *result = NULL;
    (void)self;
    if (!parse(args, "O&nw*", walk_begin, &w, &n, &leaves))
        return NULL;
    if (!walk_fits(&w, n) || !holds(&leaves, "leaves", product(n, (Py_ssize_t)w.forest.n_trees), 4))
        goto done;
    PyThreadState *thread = PyEval_SaveThread();
    for (Py_ssize_t at = 0; at < n; at += w.block) {
        Py_ssize_t count = n - at < w.block ? n - at : w.block;
        ef_apply(&w.forest, &w.rows, (size_t)at, (size_t)count, (uint32_t *)leaves.buf + at,
                 (size_t)n);
    }
    PyEval_RestoreThread(thread);
    result = Py_NewRef(Py_None);
done:
    walk_end(&w);
    PyBuffer_Release(&leaves);
    return result;
}

/* values(sums, step, low, out): predictions of a regression from summed votes, in float32 as
 * Forest.value computes them, into `out` (float64). */
static PyObject *kernel_values(PyObject *self, PyObject *args)
{
    Py_buffer sums, out;
    double step, low;
    PyObject *result = NULL;
    (void)self;
    if (!parse(args, "y*ddw*", &sums, &step, &low, &out))
        return NULL;
    const uint32_t *given = sums.buf;
    double *values = out.buf;
    Py_ssize_t n = sums.len / (Py_ssize_t)sizeof *given;
    if (holds(&sums, "sums", n, sizeof *given) && holds(&out, "out", n, sizeof *values)) {
        for (Py_ssize_t i = 0; i < n; i++) {
            float part = (float)((double)given[i] * step);
            values[i] = (double)(float)((double)part + low);
        }
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&sums);
    PyBuffer_Release(&out);
    return result;
}

/* ---- Learning row by row ---- */

static const char GROVE[] = "edgeforest._kernel.grove";

typedef struct {
    int busy; /* in the hands of a thread */
    ef_grove grove;
} Grove;

static void grove_free(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, GROVE));
}

/* The grove of a capsule, if no other thread has it in hand. */
static Grove *grove_of(PyObject *capsule)
{
    Grove *g = PyCapsule_GetPointer(capsule, GROVE);
    if (g && g->busy) {
        PyErr_SetString(PyExc_RuntimeError, "these trees are learning in another thread");
        return NULL;
    }
    return g;
}

/* The same, if it has a tree t. */
static Grove *grove_with(PyObject *capsule, int t)
{
    Grove *g = grove_of(capsule);
    return g && in_range("the tree", t, 0, g->grove.plan.n_trees) ? g : NULL;
}

/* grove(numbers, rows, least, kinds): a grove by its plan; `numbers` are those of ef_plan. */
static PyObject *kernel_grove(PyObject *self, PyObject *args)
{
    ef_plan p;
    Py_buffer kinds;
    int criterion, extra;
    long long least, seed, stream, scale, fade;
    PyObject *capsule = NULL;
    (void)self;
    memset(&p, 0, sizeof p);
    if (!parse(args, "(iiiiiiiiiiiLLLLii)dLy*", &p.m, &p.width, &p.n_trees, &p.max_features,
               &p.n_bins, &p.max_depth, &p.nodes, &p.races, &p.window, &p.patch, &p.stride, &seed,
               &stream, &scale, &fade, &criterion, &extra, &p.rows, &least, &kinds))
        return NULL;
    if (!in_range("seed", seed, 0, UINT32_MAX) || !in_range("stream", stream, 0, UINT32_MAX) ||
        !in_range("scale", scale, 1, EF_LEVELS) || !in_range("fade", fade, 1, EF_LEVELS) ||
        !in_range("criterion", criterion, 0, EF_MSE) || !in_range("features", p.m, 1, EF_FEATURE) ||
        !holds(&kinds, "kinds", p.m, sizeof(uint16_t)))
        goto done;
    p.seed = (uint32_t)seed;
    p.stream = (uint32_t)stream;
    p.scale = (uint32_t)scale;
    p.fade = (uint32_t)fade;
    p.least = least;
    p.criterion = (uint8_t)criterion;
    p.extra = extra != 0;
    const char *wrong = ef_plan_wrong(&p, kinds.buf);
    if (wrong) {
        refuse(wrong);
        goto done;
    }
    size_t head = (sizeof(Grove) + 15) & ~(size_t)15, bytes = ef_grove_bytes(&p);
    unsigned char *memory = bytes < SIZE_MAX / 2 ? PyMem_Calloc(1, head + bytes) : NULL;
    if (!memory) {
        PyErr_NoMemory();
        goto done;
    }
    ef_grove_begin(&((Grove *)(void *)memory)->grove, &p, kinds.buf, memory + head);
    capsule = PyCapsule_New(memory, GROVE, grove_free);
    if (!capsule)
        PyMem_Free(memory);
done:
    PyBuffer_Release(&kinds);
    return capsule;
}

/* Whether rows first .. first + n are in these buffers; `guesses` may be NULL. */
static int rows_fit(const ef_grove *grove, const Py_buffer *values, const Py_buffer *labels,
                    const Py_buffer *guesses, Py_ssize_t first, Py_ssize_t n)
{
    if (!in_range("the first row", first, 0, EF_MASK) || !in_range("rows", n, 0, EF_MASK) ||
        !holds(values, "values", product(first + n, grove->plan.m), sizeof(float)) ||
        !holds(labels, "labels", first + n, sizeof(uint16_t)))
        return 0;
    return !guesses || holds(guesses, "guesses", first + n, sizeof(uint32_t));
}

/* learn(grove, values, labels, first, n, guesses): predict and learn rows first .. first + n;
 * with None for guesses, take them over without learning. */
static PyObject *kernel_learn(PyObject *self, PyObject *args)
{
    PyObject *capsule, *given, *result = NULL;
    Py_buffer values, labels, guesses;
    Py_ssize_t first, n;
    (void)self;
    if (!parse(args, "Oy*y*nnO", &capsule, &values, &labels, &first, &n, &given))
        return NULL;
    memset(&guesses, 0, sizeof guesses);
    int learns = given != Py_None;
    if (learns && view_of(given, &guesses, PyBUF_WRITABLE) < 0)
        goto done;
    Grove *g = grove_of(capsule); /* after view_of, which may run Python's code */
    if (!g || !rows_fit(&g->grove, &values, &labels, learns ? &guesses : NULL, first, n))
        goto done;
    const float *rows = (const float *)values.buf + (size_t)first * (size_t)g->grove.plan.m;
    const uint16_t *targets = (const uint16_t *)labels.buf + first;
    const char *wrong = ef_grove_rows_wrong(&g->grove, rows, targets, (size_t)n);
    size_t done = 0;
    if (wrong) {
        refuse(wrong);
        goto done;
    }
    g->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    if (learns)
        done = ef_grove_learn(&g->grove, rows, targets, (size_t)n, (uint32_t *)guesses.buf + first);
    else
        done = ef_grove_recall(&g->grove, rows, targets, (size_t)n);
    Py_END_ALLOW_THREADS
    g->busy = 0;
    if (done == (size_t)n)
        result = Py_NewRef(Py_None);
    else
        refuse("the labels changed while they were learned; give a copy that nobody alters");
done:
    PyBuffer_Release(&values);
    PyBuffer_Release(&labels);
    if (guesses.obj)
        PyBuffer_Release(&guesses);
    return result;
}

/* sapling(grove, t): the bytes of a tree's feature, threshold, left, right, votes and gains. */
static PyObject *kernel_sapling(PyObject *self, PyObject *args)
{
    PyObject *capsule, *part[6], *all = NULL;
    void *bytes[6];
    int t, i;
    (void)self;
    if (!parse(args, "Oi", &capsule, &t))
        return NULL;
    const Grove *g = grove_with(capsule, t);
    if (!g)
        return NULL;
    const ef_grove *grove = &g->grove;
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
    if (!parse(args, "Oiy*y*y*y*y*y*", &capsule, &t, part, part + 1, part + 2, part + 3, part + 4,
               part + 5))
        return NULL;
    Grove *g = grove_with(capsule, t);
    Py_ssize_t n = part[0].len / 2, m = g ? g->grove.plan.m : 0;
    Py_ssize_t votes = !g ? 0 : g->grove.plan.width ? g->grove.plan.width : 2;
    int planted = 0;
    if (g && in_range("nodes", n, 1, g->grove.plan.nodes) && holds(part, "feature", n, 2) &&
        holds(part + 1, "threshold", n, 4) && holds(part + 2, "left", n, 2) &&
        holds(part + 3, "right", n, 2) && holds(part + 4, "votes", n * votes, 4) &&
        holds(part + 5, "gains", m, 8)) {
        const char *wrong = ef_grove_plant(&g->grove, t, (int32_t)n, part[0].buf, part[1].buf,
                                           part[2].buf, part[3].buf, part[4].buf, part[5].buf);
        planted = !wrong;
        if (wrong)
            refuse(wrong);
    }
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(part + i);
    return planted ? Py_NewRef(Py_None) : NULL;
}

/* renew(grove, t): grow a tree anew from the latest rows. */
static PyObject *kernel_renew(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    int t;
    (void)self;
    if (!parse(args, "Oi", &capsule, &t))
        return NULL;
    Grove *g = grove_with(capsule, t);
    if (!g)
        return NULL;
    ef_grove_renew(&g->grove, t);
    return Py_NewRef(Py_None);
}

/* latest(grove): how many rows came, and the bytes of the window: values and labels. */
static PyObject *kernel_latest(PyObject *self, PyObject *capsule)
{
    (void)self;
    const Grove *g = grove_of(capsule);
    if (!g)
        return NULL;
    const ef_grove *grove = &g->grove;
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
