/* The binding of prediction: a forest is checked and packed once, then rows walk down its trees. */
#include "_kernel.h"

/* A forest whose nodes and roots were checked: every way down ends at a leaf. */
typedef struct {
    ef_packed *nodes;
    uint32_t *roots;
    size_t n_trees;
    uint32_t features, leaves; /* features that a row must have; leaves that must have votes */
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

/* Fill in a forest from its arrays, and check them. */
static int pack_forest(Packed *p, const Py_buffer *tables, int wide)
{
    Py_ssize_t n = tables[FEATURE].len / 2, trees = tables[ROOTS].len / 4;
    if (!py_in_range("nodes", n, 1, UINT32_MAX - 1) ||
        !py_holds(tables + FEATURE, "feature", n, 2) ||
        !py_holds(tables + THRESHOLD, "threshold", n, 4) ||
        !py_holds(tables + RIGHT, "right", n, wide ? 4 : 2) ||
        !py_holds(tables + ROOTS, "roots", trees, 4))
        return -1;
    Py_ssize_t bytes = py_product(n, sizeof *p->nodes);
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
        return py_refuse("a child must be one of the nodes after its parent");
    memcpy(p->roots, tables[ROOTS].buf, p->n_trees * sizeof *p->roots);
    for (size_t i = 0; i < p->n_trees; i++)
        if (p->roots[i] >= (size_t)n)
            return py_refuse("a root must be one of the nodes");
    return 0;
}

/* pack(feature, threshold, right, roots, wide) -> the forest in the form that prediction uses. */
PyObject *kernel_pack(PyObject *self, PyObject *args)
{
    Py_buffer tables[TABLES];
    PyObject *capsule = NULL;
    int wide;
    (void)self;
    if (!py_parse(args, "y*y*y*y*i", tables, tables + 1, tables + 2, tables + 3, &wide))
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
    Py_ssize_t block; /* rows of a block */
} Walk;

static void walk_end(Walk *w)
{
    for (int i = 0; i < PARTS; i++)
        PyBuffer_Release(w->part + i);
    Py_CLEAR(w->packed);
}

/* Converter for PyArg_ParseTuple's O&: from (packed, votes, X, layout). */
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
        PyErr_SetString(PyExc_TypeError, "the walk must be a tuple");
        return 0;
    }
    if (!py_parse(given, "Oy*O(LLLi)", &capsule, w->part + VOTES, &X, &offset, &row_step,
                  &column_step, &type))
        return 0;
    const Packed *p = PyCapsule_GetPointer(capsule, PACKED);
    if (!p || !py_in_range("the type of a row", type, EF_CODES, EF_F64) ||
        py_view(X, w->part + X_ROWS, PyBUF_STRIDES) != 0) {
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

/* Whether n rows lie in X with all features that nodes use; then makes the walk ready. */
static int walk_fits(Walk *w, Py_ssize_t n)
{
    Extent e = py_extent(w->part + X_ROWS);
    int64_t step = w->rows.row_step, columns = (int64_t)w->features, size = py_sizes[w->rows.type];
    if (!py_in_range("rows", n, 0, PY_SSIZE_T_MAX))
        return 0;
    if (n && (!py_within(e, w->offset, step, n, size) ||
              !py_within(e, w->offset, w->rows.column_step, columns, size) ||
              !py_within(e, w->offset + (n - 1) * step, w->rows.column_step, columns, size))) {
        py_refuse("the rows lie outside their buffer; do not change data while they are read");
        return 0;
    }
    if (n)
        w->rows.values += w->offset;
    /* A block has the rows that fit into the cache: trees are read again for each block. */
    w->block = 1024;
    while (n > 16 && w->block > 16 && w->block * (step < 0 ? -step : step) > 512 * 1024)
        w->block /= 2;
    return 1;
}

/* predict(walk, width, n, out, best): the summed votes of n rows into `out` (uint32), the place of
 * the largest into `best` (uint16). */
PyObject *kernel_predict(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer sums, winners;
    int width;
    Py_ssize_t n;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "O&inw*w*", walk_begin, &w, &width, &n, &sums, &winners))
        return NULL;
    if (!walk_fits(&w, n) || !py_in_range("classes", width, 1, EF_LEVELS) ||
        !py_holds(w.part + VOTES, "votes", py_product((Py_ssize_t)w.leaves, width), 2) ||
        !py_holds(&sums, "sums", py_product(n, width), 4) || !py_holds(&winners, "winners", n, 2))
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
PyObject *kernel_apply(PyObject *self, PyObject *args)
{
    Walk w;
    Py_buffer leaves;
    Py_ssize_t n;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "O&nw*", walk_begin, &w, &n, &leaves))
        return NULL;
    if (!walk_fits(&w, n) ||
        !py_holds(&leaves, "leaves", py_product(n, (Py_ssize_t)w.forest.n_trees), 4))
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
PyObject *kernel_values(PyObject *self, PyObject *args)
{
    Py_buffer sums, out;
    double step, low;
    PyObject *result = NULL;
    (void)self;
    if (!py_parse(args, "y*ddw*", &sums, &step, &low, &out))
        return NULL;
    const uint32_t *given = sums.buf;
    double *values = out.buf;
    Py_ssize_t n = sums.len / (Py_ssize_t)sizeof *given;
    if (py_holds(&sums, "sums", n, sizeof *given) && py_holds(&out, "out", n, sizeof *values)) {
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
