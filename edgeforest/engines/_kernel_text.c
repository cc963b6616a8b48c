/* The binding of _text.c: records of text become columns, and marks of an index. */
#include "_kernel.h"
#include "_text.h"

#include <float.h>
#include <math.h>

enum { SLOTS = 256, HASHED = 32, MAX_COLUMNS = 1 << 16 };

/* What columns are made from. */
typedef struct {
    const char *text, *missing;
    size_t missing_size; /* words, each with a 0 behind it */
    ef_cell *cells;      /* row by row */
    Py_ssize_t rows, columns;
    ef_signs signs;
} Cells;

static int is_missing(const Cells *c, const char *at, size_t size)
{
    const char *word = c->missing, *end = word + c->missing_size, *last;
    for (; c->missing_size && (last = memchr(word, 0, (size_t)(end - word))); word = last + 1)
        if ((size_t)(last - word) == size && memcmp(word, at, size) == 0)
            return 1;
    return 0;
}

/* ---- Columns of numbers ---- */

/* A number as Python's float reads it. */
static double read_slowly(const char *text, size_t size)
{
    char copy[EF_LONGEST + 1];
    for (size_t i = 0; i < size; i++)
        copy[i] = text[i] == ',' ? '.' : text[i];
    copy[size] = 0;
    return PyOS_string_to_double(copy, NULL, NULL);
}

/* Read a cell into *wide, or rounded into *narrow; returns 0 if it is not a number. */
static int read_number(const Cells *c, const ef_cell *cell, int single, double *wide, float *narrow)
{
    const char *at = c->text + cell->at;
    *wide = NAN;
    *narrow = NAN;
    ef_found found = ef_number(at, cell->size, c->signs.comma, wide);
    if (found == EF_NOT_A_NUMBER)
        return is_missing(c, at, cell->size);
    if (found == EF_FAR || (found == EF_NEAR && !(single && ef_float(*wide, narrow)))) {
        *wide = read_slowly(at, cell->size);
        if (*wide == -1.0 && PyErr_Occurred())
            return 0;
    }
    if (!(fabs(*wide) <= (double)FLT_MAX))
        return 0;
    *narrow = (float)*wide;
    return 1;
}

/* The numbers of a column as bytes; None if a cell holds something else. */
static PyObject *numbers_of(const Cells *c, Py_ssize_t column, int single)
{
    size_t size = single ? sizeof(float) : sizeof(double);
    PyObject *result = PyBytes_FromStringAndSize(NULL, c->rows * (Py_ssize_t)size);
    if (!result)
        return NULL;
    char *to = PyBytes_AsString(result);
    const ef_cell *cell = c->cells + column;
    for (Py_ssize_t i = 0; i < c->rows; i++, cell += c->columns, to += size) {
        double wide;
        float narrow;
        if (!read_number(c, cell, single, &wide, &narrow)) {
            Py_DECREF(result);
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
        }
        if (single)
            memcpy(to, &narrow, sizeof narrow);
        else
            memcpy(to, &wide, sizeof wide);
    }
    return result;
}

/* ---- Columns of text ---- */

/* The text of a cell, None if it is missing; NULL without an error if Python has to strip it. */
static PyObject *make_text(const Cells *c, const ef_cell *cell)
{
    const char *at = c->text + cell->at;
    size_t plain = 0;
    if (is_missing(c, at, cell->size))
        return Py_NewRef(Py_None);
    while (plain < cell->size && (unsigned char)at[plain] < 128)
        plain++;
    if (plain == cell->size)
        return PyUnicode_FromStringAndSize(at, (Py_ssize_t)cell->size);
    PyObject *text = PyUnicode_DecodeUTF8(at, (Py_ssize_t)cell->size, "strict");
    PyObject *stripped = text ? PyObject_CallMethod(text, "strip", NULL) : NULL;
    if (!stripped || PyUnicode_GetLength(stripped) != PyUnicode_GetLength(text))
        Py_CLEAR(text);
    Py_XDECREF(stripped);
    return text;
}

/* The texts of a column as a list. Those that are met again soon are the same object. */
static PyObject *texts_of(const Cells *c, Py_ssize_t column)
{
    struct {
        const ef_cell *cell;
        PyObject *text; /* which the list holds */
    } slots[SLOTS];
    PyObject *result = PyList_New(c->rows);
    memset(slots, 0, sizeof slots);
    for (Py_ssize_t i = 0; result && i < c->rows; i++) {
        const ef_cell *cell = c->cells + i * c->columns + column, *old;
        uint32_t hash = 2166136261u + cell->size;
        for (uint32_t k = 0; k < cell->size && k < HASHED; k++)
            hash = (hash ^ (unsigned char)c->text[cell->at + k]) * 16777619u;
        hash = (hash ^ hash >> 16) % SLOTS;
        old = slots[hash].cell;
        if (!old || old->size != cell->size ||
            memcmp(c->text + old->at, c->text + cell->at, cell->size) != 0) {
            slots[hash].cell = cell;
            slots[hash].text = make_text(c, cell);
        } else
            Py_INCREF(slots[hash].text);
        if (!slots[hash].text || PyList_SetItem(result, i, slots[hash].text) < 0)
            Py_CLEAR(result);
    }
    return result;
}

/* ---- Functions of the module ---- */

/* The columns of cells, by kind; NULL without an error if a text must be left to Python. */
static PyObject *columns_of(const Cells *c, const char *kinds)
{
    PyObject *result = PyList_New(c->columns);
    for (Py_ssize_t f = 0; result && f < c->columns; f++) {
        PyObject *column = Py_NewRef(Py_None);
        if (kinds[f] == 'f' || kinds[f] == 'd') {
            Py_DECREF(column);
            column = numbers_of(c, f, kinds[f] == 'f');
        }
        if (column == Py_None && kinds[f] != '-') {
            Py_DECREF(column);
            column = texts_of(c, f);
        }
        if (!column || PyList_SetItem(result, f, column) < 0)
            Py_CLEAR(result);
    }
    return result;
}

/* cells(text, rows, (separator, quote, comma, longest), kinds, missing) -> columns.
 *
 * The text is UTF-8 and has `rows` lines, and a line as many cells as there are kinds: f (float32), d (float64),
 * t (text) or - (nothing). A column is bytes of numbers, a list of texts, also for numbers if one is
 * unusual, or None. The result is None if Python has to read the lines. */
PyObject *kernel_cells(PyObject *self, PyObject *args)
{
    Py_buffer text, kinds, missing;
    int separator, quote, comma;
    Py_ssize_t longest;
    PyObject *result = NULL;
    Cells c;
    (void)self;
    memset(&c, 0, sizeof c);
    if (!py_parse(args, "y*n(iiin)y*y*", &text, &c.rows, &separator, &quote, &comma, &longest,
                  &kinds, &missing))
        return NULL;
    c.columns = kinds.len;
    if (!py_in_range("the separator", separator, 1, 127) ||
        !py_in_range("the quote", quote, 0, 127) || !py_in_range("longest", longest, 0, 1 << 30) ||
        !py_in_range("columns", c.columns, 1, MAX_COLUMNS) ||
        !py_in_range("rows", c.rows, 1, PY_SSIZE_T_MAX))
        goto done;
    c.text = text.buf;
    c.missing = missing.buf;
    c.missing_size = (size_t)missing.len;
    c.signs.separator = (char)separator;
    c.signs.quote = (char)quote;
    c.signs.comma = comma != 0;
    c.signs.longest = (size_t)longest;
    result = Py_None;
    /* A cell has a separator or a line end behind it: so a short text takes little memory. */
    Py_ssize_t count = py_product(c.rows, c.columns);
    if (count < 0 || count - 1 > text.len || !text.len) {
        Py_INCREF(result);
        goto done;
    }
    c.cells = PyMem_Malloc((size_t)count * sizeof *c.cells);
    if (!c.cells)
        result = PyErr_NoMemory();
    else if (!ef_split(c.text, (size_t)text.len, &c.signs, (size_t)c.rows, (size_t)c.columns,
                       c.cells))
        Py_INCREF(result);
    else {
        result = columns_of(&c, kinds.buf);
        if (!result && !PyErr_Occurred())
            result = Py_NewRef(Py_None);
    }
done:
    PyMem_Free(c.cells);
    PyBuffer_Release(&text);
    PyBuffer_Release(&kinds);
    PyBuffer_Release(&missing);
    return result;
}

/* quotes(text, quote, opens, spaced) -> 0 if all quotes are closed, 1 if one is open at the end, 2
 * if a line ends within one. */
PyObject *kernel_quotes(PyObject *self, PyObject *args)
{
    Py_buffer text;
    int quote, opens, spaced;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "y*iii", &text, &quote, &opens, &spaced))
        return NULL;
    if (py_in_range("the quote", quote, 1, 127) && py_in_range("the sign before it", opens, 1, 127))
        result = PyLong_FromLong(text.len ? (long)ef_quotes(text.buf, (size_t)text.len, (char)quote,
                                                            (char)opens, spaced)
                                          : EF_CLOSED);
    PyBuffer_Release(&text);
    return result;
}

/* marks(text, spacing, blank) -> pairs of uint64: where the part after a mark ends, and its lines;
 * None if a line is blank or begins with a blank byte, or ends by \r alone. */
PyObject *kernel_marks(PyObject *self, PyObject *args)
{
    Py_buffer text, blank;
    Py_ssize_t spacing;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "y*ny*", &text, &spacing, &blank))
        return NULL;
    if (py_in_range("the spacing", spacing, 16, PY_SSIZE_T_MAX)) {
        size_t most = (size_t)(text.len / spacing + 1);
        uint64_t *pairs = PyMem_Malloc(2 * most * sizeof *pairs);
        ptrdiff_t marks = 0;
        if (pairs && text.len)
            marks = ef_marks(text.buf, (size_t)text.len, (size_t)spacing, blank.buf,
                             (size_t)blank.len, pairs, most);
        if (!pairs)
            PyErr_NoMemory();
        else if (marks > 0)
            result = PyBytes_FromStringAndSize((const char *)pairs,
                                               marks * 2 * (Py_ssize_t)sizeof *pairs);
        else
            result = Py_NewRef(Py_None);
        PyMem_Free(pairs);
    }
    PyBuffer_Release(&text);
    PyBuffer_Release(&blank);
    return result;
}
