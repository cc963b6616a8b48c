/* The binding's checks of buffers and numbers; each sets a Python error that says what is wrong. */
#include "_kernel.h"

#include <stdarg.h>

const int64_t py_sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

int py_refuse(const char *sentence)
{
    PyErr_SetString(PyExc_ValueError, sentence);
    return -1;
}

/* A number that does not fit and a buffer that is not contiguous are ValueErrors like others. */
static void as_value_error(void)
{
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        py_refuse("a number is too large, or negative where it must not be");
    else if (PyErr_ExceptionMatches(PyExc_BufferError))
        py_refuse("a buffer must be contiguous, and writable where it is written to");
}

int py_parse(PyObject *args, const char *format, ...)
{
    va_list places;
    va_start(places, format);
    int done = PyArg_VaParse(args, format, places);
    va_end(places);
    if (!done)
        as_value_error();
    return done;
}

int py_view(PyObject *object, Py_buffer *view, int flags)
{
    int done = PyObject_GetBuffer(object, view, flags);
    if (done < 0)
        as_value_error();
    return done;
}

Py_ssize_t py_product(Py_ssize_t a, Py_ssize_t b)
{
    return a < 0 || b < 0 || (b && a > PY_SSIZE_T_MAX / b) ? -1 : a * b;
}

int py_holds(const Py_buffer *view, const char *what, Py_ssize_t count, Py_ssize_t size)
{
    Py_ssize_t bytes = py_product(count, size);
    if (bytes < 0 || view->len < bytes) {
        PyErr_Format(PyExc_ValueError, "%s must hold %zd items of %zd bytes, got %zd bytes", what,
                     count, size, view->len);
        return 0;
    }
    if (view->len && (uintptr_t)view->buf % (uintptr_t)size) {
        PyErr_Format(PyExc_ValueError, "%s must be aligned to %zd bytes", what, size);
        return 0;
    }
    return 1;
}

int py_in_range(const char *what, long long value, long long low, long long high)
{
    if (low <= value && value <= high)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s must be from %lld to %lld, got %lld", what, low, high,
                 value);
    return 0;
}

Extent py_extent(const Py_buffer *view)
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

int py_within(Extent e, int64_t offset, int64_t step, int64_t count, int64_t size)
{
    if (offset < e.low || e.high - e.low < size || offset > e.high - size)
        return 0;
    if (count < 2 || step == 0)
        return 1;
    if (step < -PTRDIFF_MAX)
        return 0;
    return count - 1 <= (step > 0 ? (e.high - size - offset) / step : (offset - e.low) / -step);
}
