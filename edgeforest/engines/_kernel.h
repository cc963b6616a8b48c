/* What the parts of the binding share: checks of what Python gives, columns, and its functions.
 *
 * Nothing here trusts its caller. Every buffer is held while C uses it and measured before; every
 * number is in range or refused with a ValueError. What decides where memory is read or written
 * (labels, nodes, features) is checked in a copy that Python cannot alter.
 */
#ifndef EDGEFOREST_BINDING_H
#define EDGEFOREST_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../firmware/kernel/edgeforest.h"

#include <string.h>

#if defined(__GNUC__) && defined(__ELF__) /* the library exports PyInit__kernel alone */
#pragma GCC visibility push(hidden)
#endif

/* ---- Checks: _kernel_check.c ---- */

/* Set a ValueError; returns -1. */
int py_refuse(const char *sentence);

/* PyArg_ParseTuple, with a ValueError instead of an OverflowError or a BufferError. */
int py_parse(PyObject *args, const char *format, ...);

/* PyObject_GetBuffer, with the same errors. */
int py_view(PyObject *object, Py_buffer *view, int flags);

/* A product of sizes; -1 if it is too large. */
Py_ssize_t py_product(Py_ssize_t a, Py_ssize_t b);

/* Whether a buffer has room for `count` items of a size that is a power of two, and is aligned for
 * them; else sets an error. */
int py_holds(const Py_buffer *view, const char *what, Py_ssize_t count, Py_ssize_t size);

/* Whether a number is in range; else sets an error. */
int py_in_range(const char *what, long long value, long long low, long long high);

/* The bytes that belong to a view, counted from its first item: low <= place < high. */
typedef struct {
    int64_t low, high;
} Extent;

Extent py_extent(const Py_buffer *view);

/* Whether `count` items of `size` bytes lie within, the first at `offset`, then `step` apart. */
int py_within(Extent e, int64_t offset, int64_t step, int64_t count, int64_t size);

extern const int64_t py_sizes[]; /* bytes of a number, by ef_type */

/* ---- Columns that lie in Python's buffers: _kernel_columns.c ---- */

typedef struct {
    Py_buffer *views;
    Py_ssize_t n_views;
    ef_column *columns;
    Py_ssize_t m;
    float *bounds;
    uint8_t *grids;
} Columns;

/* Columns of `rows` rows from a list of buffers, where each column lies in them, and bounds (or
 * None). Without `codes`, columns of codes need not be there yet. The buffers are held until
 * py_columns_free. */
int py_columns_make(Columns *c, PyObject *buffers, PyObject *layout, PyObject *bounds, int64_t rows,
                    int codes);
void py_columns_free(Columns *c);

/* ---- The functions of the module ---- */

PyObject *kernel_bounds(PyObject *self, PyObject *args);
PyObject *kernel_encode(PyObject *self, PyObject *args);
PyObject *kernel_classes(PyObject *self, PyObject *args);
PyObject *kernel_targets(PyObject *self, PyObject *args);

PyObject *kernel_task(PyObject *self, PyObject *args); /* _kernel_train.c */
PyObject *kernel_tree(PyObject *self, PyObject *task);
PyObject *kernel_begin(PyObject *self, PyObject *args);
PyObject *kernel_grow(PyObject *self, PyObject *args);
PyObject *kernel_spent(PyObject *self, PyObject *capsule);
PyObject *kernel_close(PyObject *self, PyObject *args);

PyObject *kernel_pack(PyObject *self, PyObject *args); /* _kernel_predict.c */
PyObject *kernel_predict(PyObject *self, PyObject *args);
PyObject *kernel_apply(PyObject *self, PyObject *args);
PyObject *kernel_values(PyObject *self, PyObject *args);

PyObject *kernel_grove(PyObject *self, PyObject *args); /* _kernel_online.c */
PyObject *kernel_listed(PyObject *self, PyObject *args);
PyObject *kernel_places(PyObject *self, PyObject *args);
PyObject *kernel_named(PyObject *self, PyObject *args);
PyObject *kernel_levels(PyObject *self, PyObject *args);
PyObject *kernel_valued(PyObject *self, PyObject *args);
PyObject *kernel_learn(PyObject *self, PyObject *args);
PyObject *kernel_vote(PyObject *self, PyObject *args);
PyObject *kernel_sapling(PyObject *self, PyObject *args);
PyObject *kernel_plant(PyObject *self, PyObject *args);
PyObject *kernel_renew(PyObject *self, PyObject *args);
PyObject *kernel_choice(PyObject *self, PyObject *capsule);
PyObject *kernel_latest(PyObject *self, PyObject *capsule);

PyObject *kernel_cells(PyObject *self, PyObject *args); /* _kernel_text.c */
PyObject *kernel_quotes(PyObject *self, PyObject *args);
PyObject *kernel_marks(PyObject *self, PyObject *args);

#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility pop
#endif
#endif
