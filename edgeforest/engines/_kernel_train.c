/* The binding of training: what a forest's trees have in common, and growing them.
 *
 * Python's lock is released while a tree grows. Signals are checked about twenty times a second, so
 * that Ctrl-C works.
 */
#include "_kernel.h"

#include <stdlib.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <time.h>
#endif

/* Seconds of a clock that never goes back. */
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

typedef struct {
    ef_task task;
    Columns columns;
    Py_buffer weights, patch; /* the kernel checks these whenever it reads them */
    void *y;                  /* copies, which it trusts */
    uint16_t *usable;
} Task;

static const char TASK[] = "edgeforest._kernel.task", TREE[] = "edgeforest._kernel.tree";

static void task_free(PyObject *capsule)
{
    Task *t = PyCapsule_GetPointer(capsule, TASK);
    py_columns_free(&t->columns);
    if (t->weights.obj)
        PyBuffer_Release(&t->weights);
    if (t->patch.obj)
        PyBuffer_Release(&t->patch);
    PyMem_Free(t->y);
    PyMem_Free(t->usable);
    PyMem_Free(t);
}

/* A view of `count` numbers of 32 bits, unless None is given. */
static int optional(PyObject *object, Py_buffer *view, const char *what, Py_ssize_t count)
{
    if (object == Py_None)
        return 0;
    if (py_view(object, view, PyBUF_SIMPLE) < 0)
        return -1;
    return py_holds(view, what, count, sizeof(uint32_t)) ? 0 : -1;
}

/* A copy of the first `bytes` of a buffer, all of it if that is -1; `bytes` becomes its size. */
static void *copy_of(PyObject *object, const char *what, Py_ssize_t *bytes)
{
    Py_buffer view;
    void *copy = NULL;
    if (py_view(object, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (*bytes < 0)
        *bytes = view.len;
    if (py_holds(&view, what, *bytes, 1)) {
        copy = PyMem_Malloc((size_t)*bytes + 1);
        if (copy)
            memcpy(copy, view.buf, (size_t)*bytes);
        else
            PyErr_NoMemory();
    }
    PyBuffer_Release(&view);
    return copy;
}

/* What a task holds besides its columns: labels (of 8 or 16 bits), and which rows and features are
 * drawn. */
static int task_hold(Task *t, int wide, PyObject *usable, PyObject *y, PyObject *weights,
                     PyObject *patch)
{
    ef_task *e = &t->task;
    Py_ssize_t bytes = py_product((Py_ssize_t)e->n, wide ? 2 : 1), some = -1;
    t->y = copy_of(y, "y", &bytes);
    t->usable = t->y ? copy_of(usable, "features", &some) : NULL;
    if (!t->usable || optional(weights, &t->weights, "weights", (Py_ssize_t)e->pool + 1) < 0 ||
        optional(patch, &t->patch, "patch", (Py_ssize_t)e->pool) < 0)
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

/* The numbers of a task; those that a smaller type would cut off are checked first. */
static int task_numbers(ef_task *e, PyObject *whole, PyObject *real, int *wide)
{
    long long n, pool, sample_size, batch, max_depth, leaf, split, leaf_nodes, seed, scale, mask;
    int criterion, splitter, extra, bootstrap, raw;
    if (!py_parse(whole, "LLLLLLLLiiiLLLiiiiii", &n, &pool, &sample_size, &batch, &max_depth, &leaf,
                  &split, &leaf_nodes, &e->max_features, &e->n_bins, &e->width, &seed, &scale, &mask,
                  &criterion, &splitter, &extra, &bootstrap, &raw, wide) ||
        !py_parse(real, "dddd", &e->min_impurity_decrease, &e->z, &e->tolerance, &e->confidence))
        return -1;
    if (!py_in_range("rows", n, 1, EF_MASK) || !py_in_range("pool", pool, 1, EF_MASK) ||
        !py_in_range("seed", seed, 0, UINT32_MAX) || !py_in_range("scale", scale, 1, EF_LEVELS) ||
        !py_in_range("mask", mask, EF_MASK, EF_MASK) ||
        !py_in_range("criterion", criterion, 0, EF_MSE) ||
        !py_in_range("splitter", splitter, 0, EF_EXACT))
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
PyObject *kernel_task(PyObject *self, PyObject *args)
{
    PyObject *buffers, *layout, *bounds, *usable, *y, *weights, *patch, *whole, *real;
    int wide;
    (void)self;
    if (!py_parse(args, "(O!OO)OOOOO!O!", &PyList_Type, &buffers, &layout, &bounds, &usable, &y,
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
        py_columns_make(&t->columns, buffers, layout, bounds, e->n, 1) < 0 ||
        task_hold(t, wide, usable, y, weights, patch) < 0)
        goto done;
    e->columns = t->columns.columns;
    const char *wrong = ef_task_wrong(e, (int32_t)t->columns.m);
    if (wrong) {
        py_refuse(wrong);
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
    int busy, closed; /* a thread is using it; there is nothing to grow */
} Tree;

static void tree_free(PyObject *capsule)
{
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    free(t->workspace);
    free(t->tree.nodes);
    Py_DECREF(t->task);
    PyMem_Free(t);
}

/* tree(task): memory to grow trees in, one after the other. */
PyObject *kernel_tree(PyObject *self, PyObject *task)
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

/* The tree of a capsule, unless another thread (or a signal handler) is using it. */
static Tree *tree_of(PyObject *capsule)
{
    Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (t && t->busy) {
        PyErr_SetString(PyExc_RuntimeError, "this tree is being grown by another thread");
        return NULL;
    }
    return t;
}

/* begin(tree, index, insertions, nodes): insertions and nodes it may use, -1 for no limit. */
PyObject *kernel_begin(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long index, insertions, nodes;
    (void)self;
    if (!py_parse(args, "OLLL", &capsule, &index, &insertions, &nodes))
        return NULL;
    Tree *t = tree_of(capsule);
    if (!t || !py_in_range("the tree's number", index, 0, UINT32_MAX - 1) ||
        !py_in_range("insertions", insertions, -1, 1LL << 62) ||
        !py_in_range("nodes (or -1)", nodes ? nodes : -2, -1, INT64_MAX))
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
 * insertions; `seconds` is the time left, -1 for no limit; `stop` is a byte that another thread may
 * set. */
PyObject *kernel_grow(PyObject *self, PyObject *args)
{
    PyObject *capsule;
    long long insertions;
    double seconds;
    Py_buffer stop;
    (void)self;
    if (!py_parse(args, "OLdy*", &capsule, &insertions, &seconds, &stop))
        return NULL;
    Tree *t = tree_of(capsule);
    if (!t || !py_in_range("insertions", insertions, 0, 1LL << 62) ||
        !py_holds(&stop, "stop", 1, 1) ||
        ((!t->tree.task || t->closed) && py_refuse("begin a tree before you grow it"))) {
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
            room = t->tree.most; /* a budget in bytes allows no more */
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
PyObject *kernel_spent(PyObject *self, PyObject *capsule)
{
    (void)self;
    const Tree *t = PyCapsule_GetPointer(capsule, TREE);
    if (!t)
        return NULL;
    return Py_BuildValue("LLL", (long long)t->tree.insertions, (long long)t->tree.rows_read,
                         (long long)t->tree.rounds);
}

/* The closed tree as bytes of its parts; NULL with an error set. */
static PyObject *write_tree(Tree *t, uint32_t here, uint32_t votes_here, double *importance)
{
    PyObject *parts[4] = {NULL, NULL, NULL, NULL};
    Py_ssize_t leaves = (Py_ssize_t)ef_tree_close(&t->tree), n = (Py_ssize_t)t->tree.n_nodes;
    Py_ssize_t width = t->tree.task->criterion == EF_MSE ? 1 : t->tree.task->width;
    Py_ssize_t sizes[4] = {2 * n, 4 * n, 4 * n, py_product(2 * leaves, width)};
    if (!py_in_range("nodes", (long long)here + n, 0, UINT32_MAX) ||
        !py_in_range("votes", (long long)votes_here + leaves, 0, UINT32_MAX))
        return NULL;
    for (int i = 0; i < 4; i++)
        if (sizes[i] < 0 || !(parts[i] = PyBytes_FromStringAndSize(NULL, sizes[i])))
            goto fail;
    t->busy = t->closed = 1;
    Py_BEGIN_ALLOW_THREADS
    ef_tree_write(&t->tree, here, votes_here, (uint16_t *)(void *)PyBytes_AsString(parts[0]),
                  (float *)(void *)PyBytes_AsString(parts[1]), NULL,
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
PyObject *kernel_close(PyObject *self, PyObject *args)
{
    PyObject *capsule, *result = NULL;
    Py_buffer importance;
    long long here, votes_here;
    (void)self;
    if (!py_parse(args, "Ow*LL", &capsule, &importance, &here, &votes_here))
        return NULL;
    Tree *t = tree_of(capsule);
    const Task *task = t ? PyCapsule_GetPointer(t->task, TASK) : NULL;
    if (!task || !py_in_range("nodes before", here, 0, UINT32_MAX) ||
        !py_in_range("votes before", votes_here, 0, UINT32_MAX) ||
        !py_holds(&importance, "importance", task->columns.m, sizeof(double)))
        goto done;
    if (!t->tree.task || t->closed) {
        py_refuse("begin a tree before you close it");
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
