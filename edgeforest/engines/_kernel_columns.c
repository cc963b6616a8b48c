/* The binding of columns: they are read where they lie in Python's buffers, and become codes. */
#include "_kernel.h"

enum { LAYOUT = 6 }; /* numbers that say where a column lies; see Columns of native_reader.py */

void py_columns_free(Columns *c)
{
    for (Py_ssize_t i = 0; i < c->n_views; i++)
        PyBuffer_Release(c->views + i);
    PyMem_Free(c->views);
    PyMem_Free(c->columns);
    PyMem_Free(c->bounds);
    PyMem_Free(c->grids);
    memset(c, 0, sizeof *c);
}

/* Check where one column of `rows` rows lies. */
static int column_place(Columns *c, ef_column *column, const int64_t *place, int64_t rows)
{
    if (!py_in_range("the buffer of a column", place[0], 0, c->n_views - 1) ||
        !py_in_range("the type of a column", place[3], EF_CODES, EF_F64) ||
        !py_in_range("the highest code of a column", place[4], 0, EF_BOUNDS - 1) ||
        !py_in_range("the categories of a column", place[5], 0, EF_BOUNDS - 1))
        return -1;
    const Py_buffer *view = c->views + place[0];
    if (!py_within(py_extent(view), place[1], place[2], rows, py_sizes[place[3]]))
        return py_refuse("a column lies outside its buffer; do not change data while they are read");
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
    Py_ssize_t count = py_product(c->m, EF_BOUNDS), numbers = 0;
    if (py_view(bounds, &given, PyBUF_SIMPLE) < 0)
        return -1;
    if (!py_holds(&given, "bounds", count, sizeof(float))) {
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
            return py_refuse(wrong);
        if (column->type != EF_CODES)
            ef_grid(column, c->grids + f * (EF_GRID + 2));
    }
    return 0;
}

int py_columns_make(Columns *c, PyObject *buffers, PyObject *layout, PyObject *bounds, int64_t rows,
                    int codes)
{
    Py_buffer where;
    memset(c, 0, sizeof *c);
    if (!py_in_range("rows", rows, 1, EF_MASK) || py_view(layout, &where, PyBUF_SIMPLE) < 0)
        return -1;
    PyObject *all = PyList_AsTuple(buffers); /* a list may change while a buffer is asked for */
    Py_ssize_t n = all ? PyTuple_Size(all) : 0, entry = LAYOUT * (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t m = where.len / entry;
    if (!all || !py_in_range("columns", m, 1, EF_FEATURE) ||
        !py_holds(&where, "the layout", m * LAYOUT, sizeof(int64_t)))
        goto fail;
    c->views = PyMem_Calloc((size_t)n + 1, sizeof *c->views);
    c->columns = PyMem_Calloc((size_t)m, sizeof *c->columns);
    if (!c->views || !c->columns) {
        PyErr_NoMemory();
        goto fail;
    }
    for (; c->n_views < n; c->n_views++)
        if (py_view(PyTuple_GetItem(all, c->n_views), c->views + c->n_views, PyBUF_STRIDES) < 0)
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
    py_columns_free(c);
    return -1;
}

/* Make the bounds of every column from these rows, or from the first n; returns 0 if a row is not
 * one of the data. */
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
PyObject *kernel_bounds(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *sample, *result = NULL;
    Py_buffer out, last, rows;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!py_parse(args, "O!OOnw*w*", &PyList_Type, &buffers, &layout, &sample, &n, &out, &last))
        return NULL;
    memset(&rows, 0, sizeof rows);
    uint32_t *all = NULL;
    int known = 0;
    if (py_columns_make(&c, buffers, layout, Py_None, n, 0) < 0 ||
        !py_holds(&out, "bounds", c.m * EF_BOUNDS, sizeof(float)) ||
        !py_holds(&last, "the highest codes", c.m, sizeof(int32_t)) ||
        (sample != Py_None && py_view(sample, &rows, PyBUF_SIMPLE) < 0) ||
        (sample != Py_None && !py_holds(&rows, "a sample of rows", 0, sizeof(uint32_t))))
        goto done;
    Py_ssize_t count = sample == Py_None ? n : rows.len / (Py_ssize_t)sizeof(uint32_t);
    Py_ssize_t bytes = py_product(count, sizeof(uint32_t) + 2 * sizeof(float));
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
        py_refuse("a sample must have rows of the data");
done:
    PyMem_Free(all);
    if (rows.obj)
        PyBuffer_Release(&rows);
    py_columns_free(&c);
    PyBuffer_Release(&out);
    PyBuffer_Release(&last);
    return result;
}

/* encode(buffers, layout, bounds, first, n, codes): codes of rows first .. first + n, row by row.
 * Returns None, or the column that holds an infinite number. */
PyObject *kernel_encode(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *bounds, *result = NULL;
    Py_buffer codes;
    Py_ssize_t first, n, infinite = -1;
    Columns c;
    (void)self;
    if (!py_parse(args, "O!OOnnw*", &PyList_Type, &buffers, &layout, &bounds, &first, &n, &codes))
        return NULL;
    memset(&c, 0, sizeof c);
    if (!py_in_range("the first row", first, 0, EF_MASK) || !py_in_range("rows", n, 0, EF_MASK) ||
        py_columns_make(&c, buffers, layout, bounds, (int64_t)first + n, 0) < 0 ||
        !py_holds(&codes, "codes", py_product(first + n, c.m), 1))
        goto done;
    for (Py_ssize_t f = 0; f < c.m; f++)
        if (c.columns[f].type != EF_CODES && !c.columns[f].bounds) {
            py_refuse("a column of numbers needs its bounds");
            goto done;
        }
    enum { BLOCK = 512 };
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
    py_columns_free(&c);
    PyBuffer_Release(&codes);
    return result;
}

enum { SPREAD = 65536, CHANGED = -1, TOO_MANY = -2 };

/* Number the distinct values of a column in order, and write each row's number, from 0 on. `place`
 * has the same numbers plus 1, by how far the value is above the lowest. Returns how many there are.
 * Values are read three times: one that has changed is noticed before it is used as a place. */
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
PyObject *kernel_classes(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *result = NULL;
    Py_buffer codes;
    Py_ssize_t n;
    int64_t low = 0;
    int classes = 0;
    uint16_t *place = NULL;
    Columns c;
    (void)self;
    if (!py_parse(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &codes))
        return NULL;
    if (py_columns_make(&c, buffers, layout, Py_None, n, 1) < 0 ||
        !py_in_range("the type of labels", c.columns->type, EF_CODES, EF_I64) ||
        !py_holds(&codes, "codes", n, sizeof(uint16_t)))
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
        py_refuse("the labels changed while they were read; pass a copy");
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
    py_columns_free(&c);
    PyBuffer_Release(&codes);
    return result;
}

/* targets(buffer, layout, n, levels) -> (smallest, span) of a column of float32 numbers, with each
 * row's level between them in `levels` (uint16); None if one is not a finite number. */
PyObject *kernel_targets(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *result = NULL;
    Py_buffer levels;
    Py_ssize_t n;
    Columns c;
    (void)self;
    if (!py_parse(args, "O!Onw*", &PyList_Type, &buffers, &layout, &n, &levels))
        return NULL;
    if (py_columns_make(&c, buffers, layout, Py_None, n, 1) == 0 &&
        py_holds(&levels, "levels", n, sizeof(uint16_t))) {
        double low = 0, high = 0;
        if (ef_levels(c.columns, (size_t)n, levels.buf, &low, &high))
            result = Py_BuildValue("dd", low, high - low);
        else
            result = Py_NewRef(Py_None);
    }
    py_columns_free(&c);
    PyBuffer_Release(&levels);
    return result;
}

