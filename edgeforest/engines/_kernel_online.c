/* The binding of online learning: trees that learn row by row. */
#include "_kernel.h"

static const char GROVE[] = "edgeforest._kernel.grove";

typedef struct {
    int busy; /* a thread is using it */
    ef_grove grove;
} Grove;

static void grove_free(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, GROVE));
}

/* The grove of a capsule, unless another thread is using it. */
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
    return g && py_in_range("the tree", t, 0, g->grove.plan.n_trees) ? g : NULL;
}

/* grove(numbers, rows, least, kinds): a grove for a plan; `numbers` are those of ef_plan. */
PyObject *kernel_grove(PyObject *self, PyObject *args)
{
    ef_plan p;
    Py_buffer kinds;
    int criterion, extra;
    long long least, seed, stream, scale, fade;
    PyObject *capsule = NULL;
    (void)self;
    memset(&p, 0, sizeof p);
    if (!py_parse(args, "(iiiiiiiiiiiiLLLLii)dLy*", &p.m, &p.width, &p.n_trees, &p.max_features,
                  &p.n_bins, &p.max_depth, &p.nodes, &p.races, &p.window, &p.patch, &p.stride,
                  &p.inputs, &seed, &stream, &scale, &fade, &criterion, &extra, &p.rows, &least, &kinds))
        return NULL;
    if (!py_in_range("seed", seed, 0, UINT32_MAX) || !py_in_range("stream", stream, 0, UINT32_MAX) ||
        !py_in_range("scale", scale, 1, EF_LEVELS) || !py_in_range("fade", fade, 0, EF_LEVELS) ||
        !py_in_range("criterion", criterion, 0, EF_MSE) ||
        !py_in_range("features", p.m, 1, EF_FEATURE) ||
        !py_holds(&kinds, "kinds", p.m, sizeof(uint16_t)))
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
        py_refuse(wrong);
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

/* One number of a row as a float; 0 if somebody else has to look at it. */
static int plain_float(PyObject *item, float *to)
{
    double x;
    if (Py_IS_TYPE(item, &PyFloat_Type)) {
        x = PyFloat_AsDouble(item);
    } else if (Py_IS_TYPE(item, &PyLong_Type)) {
        x = PyLong_AsDouble(item);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
    } else {
        return 0;
    }
    *to = (float)x;
    return *to - *to == 0;
}

/* listed(rows, m): the float32 of rows that are lists of m plain, finite numbers; None of others. */
PyObject *kernel_listed(PyObject *self, PyObject *args)
{
    PyObject *rows, *found;
    Py_ssize_t m;
    (void)self;
    if (!py_parse(args, "On", &rows, &m))
        return NULL;
    Py_ssize_t n = PyList_Check(rows) ? PyList_Size(rows) : 0;
    if (n < 1 || m < 1 || m > EF_FEATURE || n > EF_MASK / m)
        return Py_NewRef(Py_None);
    found = PyBytes_FromStringAndSize(NULL, n * m * 4);
    if (!found)
        return NULL;
    float *to = (float *)(void *)PyBytes_AsString(found);
    for (Py_ssize_t i = 0; i < n; i++) { /* nothing here runs Python code, so no list changes */
        PyObject *row = PyList_GetItem(rows, i);
        int good = PyList_Check(row) && PyList_Size(row) == m;
        for (Py_ssize_t f = 0; good && f < m; f++)
            good = plain_float(PyList_GetItem(row, f), to++);
        if (!good) {
            Py_DECREF(found);
            return Py_NewRef(Py_None);
        }
    }
    return found;
}

/* places(labels, known): the uint16 that a dict has for each label of a list; None if it lacks one. */
PyObject *kernel_places(PyObject *self, PyObject *args)
{
    PyObject *labels, *known, *found;
    (void)self;
    if (!py_parse(args, "OO!", &labels, &PyDict_Type, &known))
        return NULL;
    Py_ssize_t n = PyList_Check(labels) ? PyList_Size(labels) : 0;
    if (n < 1)
        return Py_NewRef(Py_None);
    found = PyBytes_FromStringAndSize(NULL, 2 * n);
    if (!found)
        return NULL;
    uint16_t *to = (uint16_t *)(void *)PyBytes_AsString(found);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *label = PyList_GetItem(labels, i), *place = NULL;
        if (Py_IS_TYPE(label, &PyLong_Type) || Py_IS_TYPE(label, &PyUnicode_Type) ||
            Py_IS_TYPE(label, &PyBool_Type))
            place = PyDict_GetItemWithError(known, label); /* of these types it runs no Python code */
        long number = place ? PyLong_AsLong(place) : -1;
        if (number < 0 || number > UINT16_MAX) {
            PyErr_Clear();
            Py_DECREF(found);
            return Py_NewRef(Py_None);
        }
        to[i] = (uint16_t)number;
    }
    return found;
}

/* named(guesses, labels, classes): the class of each guess of `learn`, and bytes: which are wrong. */
PyObject *kernel_named(PyObject *self, PyObject *args)
{
    PyObject *classes, *names = NULL, *wrong = NULL, *result = NULL;
    Py_buffer guesses, labels;
    (void)self;
    if (!py_parse(args, "y*y*O!", &guesses, &labels, &PyList_Type, &classes))
        return NULL;
    Py_ssize_t n = guesses.len / 4;
    if (!py_holds(&guesses, "guesses", n, 4) || !py_holds(&labels, "labels", n, 2))
        goto done;
    names = PyList_New(n);
    wrong = PyBytes_FromStringAndSize(NULL, n);
    for (Py_ssize_t i = 0; names && wrong && i < n; i++) {
        uint32_t place = ((const uint32_t *)guesses.buf)[i] >> 2;
        if (!py_in_range("a guess", place, 0, PyList_Size(classes) - 1) ||
            PyList_SetItem(names, i, Py_NewRef(PyList_GetItem(classes, (Py_ssize_t)place))) < 0)
            goto done;
        PyBytes_AsString(wrong)[i] = place != ((const uint16_t *)labels.buf)[i];
    }
    if (names && wrong)
        result = PyTuple_Pack(2, names, wrong);
done:
    Py_XDECREF(names);
    Py_XDECREF(wrong);
    PyBuffer_Release(&guesses);
    PyBuffer_Release(&labels);
    return result;
}

/* levels(numbers, low, per, scale): the uint16 levels of a list of floats; None of other lists. */
PyObject *kernel_levels(PyObject *self, PyObject *args)
{
    PyObject *numbers, *found;
    double low, per;
    int scale;
    (void)self;
    if (!py_parse(args, "Oddi", &numbers, &low, &per, &scale) ||
        !py_in_range("scale", scale, 1, EF_LEVELS))
        return NULL;
    Py_ssize_t n = PyList_Check(numbers) ? PyList_Size(numbers) : 0;
    if (n < 1)
        return Py_NewRef(Py_None);
    found = PyBytes_FromStringAndSize(NULL, 2 * n);
    if (!found)
        return NULL;
    uint16_t *to = (uint16_t *)(void *)PyBytes_AsString(found);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *number = PyList_GetItem(numbers, i);
        double x = Py_IS_TYPE(number, &PyFloat_Type) ? PyFloat_AsDouble(number) : (double)NAN;
        x = (x - low) * per + 0.5;
        if (x != x) {
            Py_DECREF(found);
            return Py_NewRef(Py_None);
        }
        to[i] = (uint16_t)(x < 0 ? 0 : x >= scale ? scale : (int)x);
    }
    return found;
}

/* valued(guesses, labels, low, step, level): the numbers that the guesses of `learn` stand for, and the
 * float64 of how far each is above its label. */
PyObject *kernel_valued(PyObject *self, PyObject *args)
{
    PyObject *values = NULL, *off = NULL, *result = NULL;
    Py_buffer guesses, labels;
    double low, step, level;
    (void)self;
    if (!py_parse(args, "y*y*ddd", &guesses, &labels, &low, &step, &level))
        return NULL;
    Py_ssize_t n = guesses.len / 4;
    if (!py_holds(&guesses, "guesses", n, 4) || !py_holds(&labels, "labels", n, 2))
        goto done;
    values = PyList_New(n);
    off = PyBytes_FromStringAndSize(NULL, 8 * n);
    for (Py_ssize_t i = 0; values && off && i < n; i++) {
        float part = (float)(((const uint32_t *)guesses.buf)[i] * step);
        float value = (float)((double)part + low);
        double gap = (double)value - low - ((const uint16_t *)labels.buf)[i] * level;
        PyObject *number = PyFloat_FromDouble((double)value);
        if (!number || PyList_SetItem(values, i, number) < 0)
            goto done;
        memcpy(PyBytes_AsString(off) + 8 * i, &gap, sizeof gap);
    }
    if (values && off)
        result = PyTuple_Pack(2, values, off);
done:
    Py_XDECREF(values);
    Py_XDECREF(off);
    PyBuffer_Release(&guesses);
    PyBuffer_Release(&labels);
    return result;
}

/* Whether rows first .. first + n are in these buffers; `guesses` may be NULL. */
static int rows_fit(const ef_grove *grove, const Py_buffer *values, const Py_buffer *labels,
                    const Py_buffer *guesses, Py_ssize_t first, Py_ssize_t n)
{
    if (!py_in_range("the first row", first, 0, EF_MASK) || !py_in_range("rows", n, 0, EF_MASK) ||
        !py_holds(values, "values", py_product(first + n, grove->plan.m), sizeof(float)) ||
        !py_holds(labels, "labels", first + n, sizeof(uint16_t)))
        return 0;
    return !guesses || py_holds(guesses, "guesses", first + n, sizeof(uint32_t));
}

/* learn(grove, values, labels, first, n, guesses): predict and learn rows first .. first + n;
 * with None for guesses, only put them into the window. */
PyObject *kernel_learn(PyObject *self, PyObject *args)
{
    PyObject *capsule, *given, *result = NULL;
    Py_buffer values, labels, guesses;
    Py_ssize_t first, n;
    (void)self;
    if (!py_parse(args, "Oy*y*nnO", &capsule, &values, &labels, &first, &n, &given))
        return NULL;
    memset(&guesses, 0, sizeof guesses);
    int learns = given != Py_None;
    if (learns && py_view(given, &guesses, PyBUF_WRITABLE) < 0)
        goto done;
    Grove *g = grove_of(capsule); /* after py_view, which may run Python code */
    if (!g || !rows_fit(&g->grove, &values, &labels, learns ? &guesses : NULL, first, n))
        goto done;
    const float *rows = (const float *)values.buf + (size_t)first * (size_t)g->grove.plan.m;
    const uint16_t *targets = (const uint16_t *)labels.buf + first;
    const char *wrong = ef_grove_rows_wrong(&g->grove, rows, targets, (size_t)n);
    size_t done = 0;
    if (wrong) {
        py_refuse(wrong);
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
        py_refuse("the labels changed while they were learned; pass a copy");
done:
    PyBuffer_Release(&values);
    PyBuffer_Release(&labels);
    if (guesses.obj)
        PyBuffer_Release(&guesses);
    return result;
}

/* vote(grove, row, out): the summed votes for a row into `out` (uint32) -> the place of the largest. */
PyObject *kernel_vote(PyObject *self, PyObject *args)
{
    PyObject *capsule, *result = NULL;
    Py_buffer row, out;
    (void)self;
    if (!py_parse(args, "Oy*w*", &capsule, &row, &out))
        return NULL;
    const Grove *g = grove_of(capsule);
    if (g && py_holds(&row, "row", g->grove.plan.m, sizeof(float)) &&
        py_holds(&out, "out", g->grove.plan.width ? g->grove.plan.width : 1, sizeof(uint32_t)))
        result = PyLong_FromUnsignedLong(ef_grove_vote(&g->grove, row.buf, out.buf));
    PyBuffer_Release(&row);
    PyBuffer_Release(&out);
    return result;
}

/* choice(grove) -> who answers: 0 the trees; odd a rate of the linear model; even both. */
PyObject *kernel_choice(PyObject *self, PyObject *capsule)
{
    const Grove *g = grove_of(capsule);
    (void)self;
    return g ? PyLong_FromLong(g->grove.choice) : NULL;
}

/* sapling(grove, t): the bytes of a tree's feature, threshold, left, right, votes and gains. */
PyObject *kernel_sapling(PyObject *self, PyObject *args)
{
    PyObject *capsule, *part[6], *all = NULL;
    void *bytes[6];
    int t, i;
    (void)self;
    if (!py_parse(args, "Oi", &capsule, &t))
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
PyObject *kernel_plant(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    Py_buffer part[6];
    int t;
    (void)self;
    if (!py_parse(args, "Oiy*y*y*y*y*y*", &capsule, &t, part, part + 1, part + 2, part + 3, part + 4,
                  part + 5))
        return NULL;
    Grove *g = grove_with(capsule, t);
    Py_ssize_t n = part[0].len / 2, m = g ? g->grove.plan.m : 0;
    Py_ssize_t votes = !g ? 0 : g->grove.plan.width ? g->grove.plan.width : 2;
    int planted = 0;
    if (g && py_in_range("nodes", n, 1, g->grove.plan.nodes) && py_holds(part, "feature", n, 2) &&
        py_holds(part + 1, "threshold", n, 4) && py_holds(part + 2, "left", n, 2) &&
        py_holds(part + 3, "right", n, 2) && py_holds(part + 4, "votes", n * votes, 4) &&
        py_holds(part + 5, "gains", m, 8)) {
        const char *wrong = ef_grove_plant(&g->grove, t, (int32_t)n, part[0].buf, part[1].buf,
                                           part[2].buf, part[3].buf, part[4].buf, part[5].buf);
        planted = !wrong;
        if (wrong)
            py_refuse(wrong);
    }
    for (int i = 0; i < 6; i++)
        PyBuffer_Release(part + i);
    return planted ? Py_NewRef(Py_None) : NULL;
}

/* renew(grove, t): grow a tree anew from the latest rows. */
PyObject *kernel_renew(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    int t;
    (void)self;
    if (!py_parse(args, "Oi", &capsule, &t))
        return NULL;
    Grove *g = grove_with(capsule, t);
    if (!g)
        return NULL;
    ef_grove_renew(&g->grove, t);
    return Py_NewRef(Py_None);
}

/* latest(grove) -> (rows seen, stored beside the window, the values and labels of both as bytes). */
PyObject *kernel_latest(PyObject *self, PyObject *capsule)
{
    (void)self;
    const Grove *g = grove_of(capsule);
    if (!g)
        return NULL;
    const ef_grove *grove = &g->grove;
    Py_ssize_t rows = grove->plan.window + grove->spare;
    return Py_BuildValue("LLy#y#", (long long)grove->seen, (long long)grove->stored,
                         (const char *)grove->values, rows * grove->plan.m * 4,
                         (const char *)grove->labels, rows * 2);
}
